"""The config of the mix: who is drawn how often, and what may move that.  Used by `train.config` only.

Off is 0, empty, `none` or `groups`; then what belongs to it must be 0 as well (nothing is ignored in silence).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rollouts.adaptive import SIGNALS
from rollouts.weights import Split
from train.config_checks import not_negative, one_of, positive, unread

BALANCES = ("groups", "tokens")
MAX_REFILL_SHARE = 0.75  # three refills for an ordinary draw: the cap on oversampling


@dataclass(kw_only=True, slots=True)
class AdaptiveConfig:
    """Weights that follow the policy (`rollouts.adaptive`).

    `signal`: none, learnability (spread of rewards within groups) or improvement (what is bad and gets no better gains
    weight).  `bound`: no share leaves [base / bound, base * bound].  `rate`, `reward_weight`: step size, and what
    success counts beside its change, for `improvement`.
    """

    signal: str
    bound: float
    rate: float
    reward_weight: float

    def __post_init__(self) -> None:
        one_of("mix.adaptive.signal", self.signal, SIGNALS)
        if self.signal == "none":
            unread("mix.adaptive.signal=none", "mix.adaptive", self, "bound", "rate", "reward_weight")
            return
        if not self.bound >= 1:
            raise ValueError(
                f"mix.adaptive.bound={self.bound} must be 1 or more: shares stay within [base / bound, base * bound]"
            )
        if self.signal == "learnability":
            unread("mix.adaptive.signal=learnability", "mix.adaptive", self, "rate", "reward_weight")
        else:
            positive("mix.adaptive", self, "rate")
            not_negative("mix.adaptive.", self, "reward_weight")


@dataclass(kw_only=True, slots=True)
class CurriculumConfig:
    """A place on each skill's levels (`name-easy`, `name`, `name-hard`), moved by its success there.

    `focus`: part of the skill's share at its place, the rest goes beside it; 0 is off.  Success of `up` or more over at
    least `groups` groups moves it up, of `down` or less down.
    """

    focus: float
    up: float
    down: float
    groups: int

    def __post_init__(self) -> None:
        if not 0 <= self.focus <= 1:
            raise ValueError(f"mix.curriculum.focus={self.focus} must be between 0 (off) and 1")
        if not self.focus:
            unread("mix.curriculum.focus=0", "mix.curriculum", self, "up", "down", "groups")
            return
        positive("mix.curriculum", self, "groups")
        if not 0 <= self.down < self.up <= 1:
            raise ValueError(
                f"mix.curriculum.down={self.down} must be below mix.curriculum.up={self.up}, both between 0 and 1"
            )


@dataclass(kw_only=True, slots=True)
class MixConfig:
    """What is trained on: weights of families and domains (globs; the later rule wins), and of thinking tiers.

    - `levels`: weights of a skill's levels; empty: every domain counts by itself.  `size_temperature` T: a skill counts
      as its number of distinct tasks ** (1/T), at most `size_largest` of them; 0 is off.
    - `pass_on`: a starved domain's share goes to its family.  `refill_share`: the part of a step that may make up for
      lost groups; domains that lose half of their groups need half.
    - `balance`: weights are shares of groups, or of tokens, corrected by at most `balance_bound`.
    - `update_every`: steps between changes of weights.
    - `retire_after`: a task of a domain with a finite number of them is not asked again once so many of its groups in a
      row were solved by every trajectory; 0 is off.
    - `fit_tasks`: so many tasks of each domain are looked at before a run, and domains whose characters, prompts or
      gold answers are beyond the policy's vocabulary, context or budgets are left out, with the reason; 0 is off.
    """

    families: dict[str, float] = field(default_factory=dict)
    domains: dict[str, float] = field(default_factory=dict)
    tiers: dict[str, float]
    levels: dict[str, float] = field(default_factory=dict)
    size_temperature: float
    size_largest: int
    pass_on: bool
    refill_share: float
    balance: str
    balance_bound: float
    update_every: int
    retire_after: int
    fit_tasks: int
    adaptive: AdaptiveConfig
    curriculum: CurriculumConfig
    show: bool

    def __post_init__(self) -> None:
        if not self.tiers or min(self.tiers.values()) < 0 or not sum(self.tiers.values()) > 0:
            raise ValueError(f"mix.tiers={dict(self.tiers)} needs weights >= 0 with at least one above zero")
        Split(self.levels, self.size_temperature)
        if self.size_temperature:
            positive("mix", self, "size_largest")
        else:
            unread("mix.size_temperature=0", "mix", self, "size_largest")
        if not 0 <= self.refill_share <= MAX_REFILL_SHARE:
            raise ValueError(f"mix.refill_share={self.refill_share} must be between 0 and {MAX_REFILL_SHARE}")
        not_negative("mix.", self, "retire_after", "fit_tasks")
        self._check_moving()

    def _check_moving(self) -> None:
        one_of("mix.balance", self.balance, BALANCES)
        if self.balance == "groups":
            unread("mix.balance=groups", "mix", self, "balance_bound")
        elif not self.balance_bound >= 1:
            raise ValueError(f"mix.balance_bound={self.balance_bound} must be 1 or more with mix.balance=tokens")
        if self.is_moving:
            positive("mix", self, "update_every")
        else:
            unread("fixed weights (no mix.adaptive, mix.curriculum or mix.balance)", "mix", self, "update_every")

    @property
    def is_moving(self) -> bool:
        """Whether anything changes weights during a run."""
        return self.adaptive.signal != "none" or self.curriculum.focus > 0 or self.balance == "tokens"
