"""Days and the order of things: dates made ISO, timelines, minutes, itineraries, contracts, and lives in jobs.

In: a random stream and the settings of a level.  Out: questions and verdicts; `SKILLS` is listed by the family.
"""

from __future__ import annotations

import datetime
import random
from typing import Any

from envs.families.extraction.judging import asked_value, judge_value, levels
from envs.families.extraction.words import (
    FIRMS,
    GOODS,
    MONTHS,
    NAMES,
    ONES,
    ORDINALS,
    TOWNS,
    WEEKDAYS,
    after,
    before,
    months_later,
    some_day,
    spoken,
)
from envs.skills import Question, Skill

DAY = datetime.timedelta(days=1)

# ---- dates -----------------------------------------------------------------------------------------------------------


def _date(rng: random.Random, hard: int) -> tuple[str, datetime.date]:
    """A date as said, and the day that is meant."""
    day, weekday, few = some_day(rng), rng.randrange(7), rng.randint(2, 12)
    month = MONTHS[day.month - 1]
    easy = [
        (f"{month} {day.day}, {day.year}", day),
        (f"{day.day} {month[:3]}. {day.year}", day),
        (f"{day.day}/{day.month}/{day.year}", day),
        (f"{day.day:02d}.{day.month:02d}.{day.year % 100:02d}", day),
        (f"the day before {spoken(day)}", day - DAY),
        (f"the day after {spoken(day)}", day + DAY),
    ]
    if not hard:
        return rng.choice(easy)
    first = day.replace(day=1)
    number = rng.randrange(4)
    last = months_later(first, 1) - DAY
    known = [
        (f"the {WEEKDAYS[weekday]} after {spoken(day)}", after(day, weekday)),
        (f"the {WEEKDAYS[weekday]} before {spoken(day)}", before(day, weekday)),
        (
            f"the {ORDINALS[number]} {WEEKDAYS[weekday]} of {month} {day.year}",
            after(first - DAY, weekday) + datetime.timedelta(weeks=number),
        ),
        (f"the last {WEEKDAYS[weekday]} of {month} {day.year}", before(last + DAY, weekday)),
        (f"{ONES[few]} days after {spoken(day)}", day + datetime.timedelta(days=few)),
        (f"{ONES[few]} weeks before {spoken(day)}", day - datetime.timedelta(weeks=few)),
        (f"the last day of {month} {day.year}", last),
    ]
    return rng.choice(known if rng.random() < 0.35 + 0.3 * hard else easy)


def ask_dates(rng: random.Random, count: int, hard: int, partial: bool) -> Question:
    """All dates of an itinerary as ISO days, in the order of the text."""
    told, found = [], []
    for town in rng.sample(TOWNS, count):
        said, day = _date(rng, hard)
        told.append(
            rng.choice([f"We reach {town} on {said}.", f"{town}: {said}.", f"The tour of {town} is on {said}."])
        )
        found.append(day.isoformat())
    text = (
        "\n".join(told) + '\n\nWrite the dates in the order of the text as a JSON array of strings "YYYY-MM-DD". In '
        "dates of digits the day stands first; a year of two digits is 20xx. The Monday after (before) a day is the "
        "nearest one, never that day itself."
    )
    return asked_value(text, found, partial)


# ---- timelines -------------------------------------------------------------------------------------------------------

_EVENTS = (
    "the alarm rang,the baker left,the car stopped,the dog barked,the engine failed,the fire began,the guest arrived,"
    "the hall emptied,the ice broke,the judge spoke,the kettle boiled,the lights went out,the music ended,"
    "the note was found,the owner called"
).split(",")


def ask_timeline(rng: random.Random, events: int, times: bool, partial: bool) -> Question:
    """Events in the order of time, though told in another one."""
    order = rng.sample(_EVENTS, events)
    clock, clocks = rng.randint(8 * 60, 11 * 60), []
    for _ in order:
        clocks.append(clock)
        clock += rng.randint(3, 50)
    told = []
    for place in range(1, events):
        earlier, later = order[place - 1], order[place]
        gap = clocks[place] - clocks[place - 1]
        big = later[0].upper() + later[1:]
        forms = [
            f"{big} after {earlier}.",
            f"Before {later}, {earlier}.",
            f"{earlier[0].upper() + earlier[1:]}, and only then {later}.",
        ]
        if times:
            forms += [
                f"{big} {gap} minutes after {earlier}.",
                f"At {clocks[place] // 60}:{clocks[place] % 60:02d} {later}; {gap} minutes earlier {earlier}.",
            ]
        told.append(rng.choice(forms))
    rng.shuffle(told)
    text = (
        " ".join(told) + "\n\nWrite the events in the order of time, the earliest first, as a JSON array of strings in "
        f'the words of the text, each beginning with "the", such as "{rng.choice(order)}".'
    )
    return asked_value(text, order, partial)


# ---- minutes ---------------------------------------------------------------------------------------------------------

_TASKS = (
    "order chairs,print flyers,book the hall,call the printer,pay the rent,fix the door,write the report,clean the van,"
    "update the list,check the fuses,find a cook,mow the lawn"
).split(",")


def ask_minutes(rng: random.Random, items: int, changes: int, partial: bool) -> Question:
    """What was agreed in a meeting: who does what by when; withdrawn and refused tasks are left out."""
    meeting = some_day(rng)
    told, tasks = [], {}
    for task in rng.sample(_TASKS, items):
        name, weekday, days = rng.choice(NAMES), rng.randrange(7), rng.randint(2, 12)
        when, day = rng.choice(
            [
                (f"within {ONES[days]} days", meeting + datetime.timedelta(days=days)),
                (f"by {WEEKDAYS[weekday]}", after(meeting, weekday)),
                (f"by {spoken(meeting + days * DAY)}", meeting + days * DAY),
                ("by tomorrow", meeting + DAY),
            ]
        )
        tasks[task] = [name, task, day.isoformat()]
        told.append(f"{name} will {task} {when}.")
    for task in rng.sample(list(tasks), min(changes, items - 1)):
        name, days = rng.choice(NAMES), rng.randint(2, 12)
        kind = rng.randrange(4)
        if kind == 0:
            told.append(f"On second thoughts, nobody needs to {task}.")
            del tasks[task]
        elif kind == 1:
            told.append(f"Instead of {tasks[task][0]}, {name} takes on to {task}, same date.")
            tasks[task][0] = name
        elif kind == 2:
            told.append(f"The date to {task} is put off by {ONES[days]} days.")
            tasks[task][2] = (datetime.date.fromisoformat(tasks[task][2]) + days * DAY).isoformat()
        else:
            told.append(f"{name} offers to {rng.choice(['sing', 'cook'])}; this is declined.")
    many = items > 1
    found = list(tasks.values())
    text = (
        f"Minutes of {WEEKDAYS[meeting.weekday()]}, {spoken(meeting)}\n"
        + "\n".join(f"- {line}" for line in told)
        + "\n\nWhat holds at the end of the meeting? Write "
        + (
            "a JSON array with one triple for each task, in the order in which the tasks first come up: "
            if many
            else "a JSON array: "
        )
        + '["name", "task", "YYYY-MM-DD"]. A weekday is the next one after the day of the meeting.'
    )
    return asked_value(text, found if many else found[0], partial)


# ---- itineraries -----------------------------------------------------------------------------------------------------


def ask_itinerary(rng: random.Random, legs: int, partial: bool) -> Question:
    """Legs of a journey with departure and arrival, computed from durations and waits."""
    towns = rng.sample(TOWNS, legs + 1)
    start = some_day(rng)
    now = datetime.datetime(start.year, start.month, start.day, rng.randint(5, 23), 5 * rng.randrange(12))
    told = [f"The journey begins in {towns[0]} on {spoken(start)} at {now:%H:%M}."]
    found = []
    for place in range(legs):
        hours, minutes = rng.randint(1, 9), rng.choice([0, 10, 25, 30, 45])
        lasts = datetime.timedelta(hours=hours, minutes=minutes)
        length = f"{hours} h {minutes} min" if minutes else f"{hours} hours"
        arrival = now + lasts
        told.append(
            rng.choice(
                [
                    f"The {'train' if place % 2 else 'bus'} to {towns[place + 1]} takes {length}.",
                    f"It takes {length} to get to {towns[place + 1]}.",
                    f"We are in {towns[place + 1]} {length} later.",
                ]
            )
        )
        found.append([towns[place], f"{now:%Y-%m-%d %H:%M}", towns[place + 1], f"{arrival:%Y-%m-%d %H:%M}"])
        now = arrival
        if place < legs - 1:
            wait = rng.choice([20, 40, 75, 90])
            ready = 5 * rng.randrange(72, 132)
            if rng.random() < 0.5:
                told.append(f"We wait there for {wait} minutes.")
                now += datetime.timedelta(minutes=wait)
            else:
                told.append(f"We stay there overnight and go on the next day at {ready // 60:02d}:{ready % 60:02d}.")
                now = datetime.datetime.combine(now.date() + DAY, datetime.time(ready // 60, ready % 60))
    many = legs > 1
    text = (
        " ".join(told)
        + "\n\nAll times are of one time zone. Write "
        + ("a JSON array with one array for each leg: " if many else "a JSON array: ")
        + '["from", "departure", "to", "arrival"], times as "YYYY-MM-DD HH:MM".'
    )
    return asked_value(text, found if many else found[0], partial)


# ---- contracts -------------------------------------------------------------------------------------------------------


def ask_contract(rng: random.Random, clauses: int, partial: bool) -> Question:
    """Parties, term, fee and notice of a contract, with amendments that replace earlier clauses."""
    first, second, third = rng.sample(FIRMS, 3)
    good = rng.choice(GOODS)
    start = months_later(some_day(rng).replace(day=1), 0)
    months, notice, fee = rng.choice([6, 12, 18, 24, 30]), rng.randint(2, 12), rng.randint(2, 90) * 50
    told = [
        f'{first} ("the Supplier") and {second} ("the Client") agree:',
        f"The Supplier delivers {good}s from {spoken(start)} on, for a term of {months} months.",
    ]
    value: dict[str, Any] = {"supplier": first, "end": None}
    keys = ['"supplier": a name', '"end": the last day, "YYYY-MM-DD"']
    if clauses:
        told.append(f"The Client pays {fee} euros a month. Either side may end the contract on {notice} weeks' notice.")
        value |= {"client": second, "monthly_fee": fee, "notice_days": notice * 7, "penalty": None}
        keys += ['"client"', '"monthly_fee" and "penalty": euros, integers', '"notice_days": an integer']
    for kind in rng.sample(range(6), clauses):
        if kind == 0:
            more = rng.choice([3, 6, 12])
            told.append(f"Amendment: the term is extended by {more} months.")
            months += more
        elif kind == 1:
            percent = rng.choice([10, 20, 50])
            told.append(f"Amendment: the fee rises by {percent} percent from the first month on.")
            value["monthly_fee"] = value["monthly_fee"] * (100 + percent) / 100
        elif kind == 2:
            told.append(f"Amendment: {third} takes the place of the Client in all rights and duties.")
            value["client"] = third
        elif kind == 3:
            told.append(f"Amendment: the notice is {notice + 10} days.")
            value["notice_days"] = notice + 10
        elif kind == 4:
            told.append(f"For late delivery the Supplier owes {fee // 10} euros a day; nothing for the first two days.")
            value["penalty"] = fee // 10
        else:
            told.append(f"{third} was asked for an offer of {fee - 40} euros a month, which was not accepted.")
    value["end"] = (months_later(start, months) - DAY).isoformat()
    if clauses:
        value["total_fee"] = value["monthly_fee"] * months
        keys.append('"total_fee": of the whole term')
    value = {key: int(one) if isinstance(one, float) and one.is_integer() else one for key, one in value.items()}
    missing = ' "penalty" is what is owed for each day late. What the contract does not say is null.' if clauses else ""
    text = (
        " ".join(told) + f"\n\nWrite what holds in the end as a JSON object with the keys {'; '.join(keys)}.{missing}"
    )
    return asked_value(text, value, partial)


# ---- lives in jobs ---------------------------------------------------------------------------------------------------


def ask_jobs(rng: random.Random, jobs: int, partial: bool) -> Question:
    """A life told backwards or by durations, as jobs with first and last month."""
    name = rng.choice(NAMES)
    at = 12 * rng.randint(1995, 2008) + rng.randrange(12)
    told, found = [], []
    for place, firm in enumerate(rng.sample(FIRMS, jobs)):
        months = rng.choice([8, 12, 15, 18, 24, 30, 36])
        first, last = at, at + months - 1
        begin, end = (f"{MONTHS[month % 12]} {month // 12}" for month in (first, last))
        length = f"{months // 12} year{'s' * (months > 12)}" if months % 12 == 0 else f"{months} months"
        told.append(
            rng.choice(
                [
                    f"From {begin} to {end}, {name} worked for {firm}.",
                    f"{name} joined {firm} in {begin} and stayed for {length}.",
                    f"At {firm}, where {name} spent {length}, the last month was {end}.",
                ]
            )
        )
        found.append([firm, f"{first // 12}-{first % 12 + 1:02d}", f"{last // 12}-{last % 12 + 1:02d}"])
        at = last + 1 + (rng.randint(0, 7) if place < jobs - 1 else 0)
    rng.shuffle(told)
    many = jobs > 1
    text = (
        " ".join(told)
        + "\n\nMonths count in full, the first and the last included. Write "
        + ("a JSON array with one array for each job, the earliest first: " if many else "a JSON array: ")
        + '["firm", "first month", "last month"], months as "YYYY-MM".'
    )
    return asked_value(text, found if many else found[0], partial)


SKILLS = [
    Skill(name="dates", ask=ask_dates, judge=judge_value, levels=levels("count", 1, 3, 7, hard=(0, 1, 2))),
    Skill(
        name="timeline",
        ask=ask_timeline,
        judge=judge_value,
        levels=levels("events", 3, 5, 9, times=(False, True, True)),
    ),
    Skill(name="minutes", ask=ask_minutes, judge=judge_value, levels=levels("items", 1, 4, 8, changes=(0, 2, 5))),
    Skill(name="itinerary", ask=ask_itinerary, judge=judge_value, levels=levels("legs", 1, 3, 6)),
    Skill(name="contract", ask=ask_contract, judge=judge_value, levels=levels("clauses", 0, 3, 6)),
    Skill(name="jobs", ask=ask_jobs, judge=judge_value, levels=levels("jobs", 1, 3, 7)),
]
