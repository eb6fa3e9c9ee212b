"""Words of everyday English that made-up texts are written with, by part of speech.

In: nothing.  Out: tuples of words.  Used by `writing` and by single skills.  Every noun takes a plain `s` in the
plural, every verb stands in the past tense and takes an object, unless its table says otherwise.
"""

from __future__ import annotations

NOUNS = tuple(
    """anchor apple apron artist autumn baker balcony banner barn basin basket beacon bell bicycle bird blanket boat
    book bottle bridge broom bucket button cabin camel candle canyon captain carpet castle cellar chair chart chimney
    clock cloud coat coin comet cook cottage cousin cradle crown cup curtain dancer desert desk doctor dog dolphin door
    dragon drum duck eagle editor engine engineer envelope farmer feather fiddle field flag flower forest fountain
    garden gate giant glacier goat guest guitar hammer harbour hat hill horn hotel hunter island jacket jar jewel
    judge jug kettle kitchen kite ladder lake lamp lantern lawyer lemon letter lighthouse lion lock magnet map market
    meadow melon merchant mill miner mirror monk moon morning mountain museum nail needle neighbour nephew nest
    notebook nurse oak ocean officer onion orchard organ oven owl painter parrot path pearl pencil pepper piano pilot
    pillow pirate planet plank pocket pond potato prince pumpkin queen quilt rabbit raft railway ribbon river road
    robin robot rocket roof rope sailor sandal satchel scarf school seed shepherd ship signal singer sister spoon
    station stone storm student sunset sweater tailor teacher teapot temple tent throne ticket tiger tower trader trail
    train trumpet tunnel turtle uncle valley vase village violin visitor waiter walnut wagon wall warden whale wheel
    whistle window winter wizard wolf yacht zebra lizard clown farm bus plum kiosk goal sign loom song stop
    """.replace(" wolf", "")
    .replace(" bus", "")
    .split()
)
ADJECTIVES = tuple(
    """ancient amber angry blue bold brave bright broad broken brown calm careful cheap clever cold copper cosy crisp
    curious dark dear dry dusty eager early elegant empty faint famous fast fine foggy fragile free fresh friendly
    frosty gentle giant glad golden grand green grey happy heavy hidden high hollow honest hot huge humble icy idle
    jolly keen kind large late lazy light little lively local lonely long loud loyal lucky mad merry mild misty modest
    muddy narrow neat new noble noisy odd old open orange pale patient plain polite proud purple quick quiet rapid
    rare ready red rich ripe rough round royal rusty sad safe salty sharp shiny short shy silent silver simple sleepy
    slim slow small smart smooth soft solid sour steady stiff strong sudden sunny sweet tall tame tidy tiny tired
    tough upper useful vast velvet violet warm weary white wide wild windy wise wooden yellow young zany
    """.split()
)
VERBS = tuple(
    """admired asked borrowed bought broke brought built called carried caught chased chose cleaned collected cooked
    counted covered cut described drew examined fed filled finished fixed folded followed forgot fought found gathered
    got greeted guarded helped hid hit hugged ignored invited joined kept kicked kissed knew led lifted lit locked
    lost loved made measured mended met missed moved named needed noticed opened ordered owned packed painted paid
    passed photographed picked planned polished praised pulled pushed put questioned raised reached remembered
    repaired rescued sang saw searched sent served sketched sold sought stole studied swept taught thanked took touched
    trusted turned used visited wanted warmed washed watched welcomed won wrapped
    """.replace(" sang", "").split()
)
# These stand without an object.
INTRANSITIVE = tuple(
    """arrived cried danced dozed fell grinned hummed jumped kneeled laughed listened marched nodded paused prayed
    rested sang sat shivered shouted slept smiled sneezed sobbed stood swam trembled vanished waited walked whistled
    worked yawned""".split()
)
ADVERBS = tuple(
    """again afterwards badly boldly bravely briefly calmly carefully early eagerly gently gladly happily idly
    kindly lately lightly loudly lazily merrily neatly nearby often once patiently politely promptly proudly quickly
    quietly rapidly rarely sadly safely secretly shyly silently slowly softly soon stiffly suddenly there tightly
    today together twice warmly weekly wisely yesterday""".split()
)
OPENERS = tuple("Yesterday Today Once Suddenly Later Sometimes Quietly Finally Soon Tonight Often Meanwhile".split())
DETERMINERS = tuple("the our this that my one her his their your every another each some".split())
PREPOSITIONS = tuple("near behind beside under above beyond past inside outside around across at by from with".split())
NAMES = tuple(
    """Anna Boris Clara David Emma Felix Greta Henry Iris Jonas Karla Lukas Maria Nina Oscar Paula Quentin Rosa Simon
    Tessa Ursula Victor Walter Xenia Yusuf Zoe""".split()
)
# Words for acrostics: everyday ones, of three to seven letters, each letter at most once or twice.
ACROSTICS = tuple(
    """art bay cat cub dew fox gem hat ink jam key log map net oak pen rug sky tin van web zip bark clay dawn echo
    fern gold hope iron jury kite lime moss nest opal pine quiz rain salt tide unit vine wolf yarn amber brick candy
    delta eagle flute grain honey ivory jelly lemon maple night ocean pearl quilt river solar tiger urban violet
    winter yellow bridge copper dragon engine forest garden harvest island jungle kitchen lantern morning
    """.split()
)
PALINDROMES = tuple(
    """civic kayak level madam minim radar refer rotor sagas solos stats tenet noon deed peep poop racecar reviver
    rotator deified redder toot sees""".replace(" poop", "").split()
)
# Near misses: they read almost the same both ways.
NEAR_PALINDROMES = tuple(
    """civil kayaks lever modem radio refers motor saga solo stat tents noun deeds peer racer revival rotate
    reader tool seas eleven banana label local sister erase arena cocoa opera""".split()
)
PROJECTS = tuple("letter note notice report story scene speech diary entry postcard message".split())
