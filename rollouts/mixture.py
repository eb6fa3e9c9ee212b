"""Which domain, tier and task next, and what became of it.

In: a weight for each domain, a weight for each tier.  Out: tickets, each a promise that the loop will make one group
of that domain and tier.  Called by the loop, which settles every ticket: accepted, or lost and then owed a refill.

The stream is a function of seed, weights and the order of calls; no random number generator is involved, and
`state_dict` resumes it exactly, also when domains have come or gone since.  How quotas are kept: `rollouts.quotas`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from rollouts.accounts import Account, Outcome, account_document, account_from, pairs
from rollouts.quotas import CarriedQuota, ExactQuota, Weight, exact_fraction, shares, stable_hash

MAX_OVERSAMPLING = 4  # submitted groups for one that is accepted, in the long run
BURST_DRAWS = 16  # so many draws' refills may be saved up for a bad stretch
START_RANGE = 1_000_000
MAX_HELD_OUT_IN_A_ROW = 10_000


@dataclass(frozen=True, slots=True)
class Ticket:
    """One draw.  `position` counts the earlier tickets of its domain; `refill` names the ticket that it makes up for.

    Example: ``Ticket(number=17, domain="math/add", tier="low", position=3)``
    """

    number: int
    domain: str
    tier: str
    position: int
    refill: int | None = None


class Mixture:
    """Exact quotas over domains and over the tiers of each.

    weights: domain -> weight, unnormalised (see `rollouts.quotas.exact_fraction` for what a float means).
    tiers: domain -> the tiers it declares; tier_weights: tier -> weight (default: all equal).  A tier that a domain
    does not declare is never drawn there.  families: domain -> label along which the order is spread (default: the part
    of the name before the slash).  `pass_on`: what a starved domain writes off, its family makes up for, each member in
    proportion to its share, so that the family keeps its share of what is accepted; otherwise it is lost.

    Raises ValueError for unusable weights and for a domain that is left without a tier.
    """

    def __init__(
        self,
        weights: Mapping[str, Weight],
        tiers: Mapping[str, Iterable[str]],
        tier_weights: Mapping[str, Weight] | None = None,
        seed: int = 0,
        families: Mapping[str, str] | None = None,
        pass_on: bool = False,
    ):
        self.seed = seed
        self._pass_on = pass_on
        self._passed: dict[str, list[tuple[int, str]]] = {}  # family -> heap of what its members wrote off
        self._grouped: tuple[Mapping[str, Fraction], dict[str, list[str]]] = ({}, {})
        self._tiers = {domain: tuple(declared) for domain, declared in tiers.items()}
        self._tier_weights = dict(tier_weights) if tier_weights is not None else None
        self._families = dict(families or {})
        self._base = shares(weights)
        self._num_tickets = 0
        self._in_flight: dict[int, tuple[Ticket, int | None]] = {}
        self._accounts: dict[str, Account] = {}
        self._tier_quotas: dict[str, ExactQuota] = {}
        self._quota: ExactQuota | CarriedQuota = self._exact(self._base)
        self._admit(self._base)

    # Drawing

    def next_ticket(self) -> Ticket:
        """The next ordinary draw."""
        domain = self._quota.draw()
        account = self._accounts[domain]
        account.credit = min(account.credit + MAX_OVERSAMPLING - 1, BURST_DRAWS * (MAX_OVERSAMPLING - 1))
        return self._submit(domain, self._tier_quotas[domain].draw())

    def refill_ticket(self, domain: str) -> Ticket | None:
        """Make up for the oldest lost ticket of a domain, in the same tier.

        None if nothing is owed.  Ordinary draws do not move, so that accepted quotas approach the drawn ones.
        """
        account = self._account(domain)
        if not account.owed or domain not in self._quota.shares:
            return None
        assert account.credit > 0, "debts beyond the credit are written off"
        account.credit -= 1
        lost, tier = heapq.heappop(account.owed)
        return self._submit(domain, tier, refill=lost)

    def refill_tickets(self, budget: int) -> list[Ticket]:
        """At most `budget` refills over all domains, oldest loss first: the order of settling does not matter."""
        heap = [(self._accounts[name].owed[0], name, True) for name in self._quota.shares if self._accounts[name].owed]
        heap += [(passed[0], family, False) for family, passed in self._passed.items() if passed]
        heapq.heapify(heap)
        tickets: list[Ticket] = []
        while heap and len(tickets) < budget:
            _, name, own = heapq.heappop(heap)
            ticket = self.refill_ticket(name) if own else self._inherit(name)
            if ticket is None:
                assert not own
                continue
            tickets.append(ticket)
            waiting = self._accounts[name].owed if own else self._passed[name]
            if waiting:
                heapq.heappush(heap, (waiting[0], name, own))
        return tickets

    def take_index(self, ticket: Ticket, is_train: Callable[[int], bool]) -> int:
        """The task index for a ticket: its domain's next one in the training split.  None is given out twice.

        The index is kept with the ticket while that is in flight (see `in_flight`).  Raises ValueError when the domain
        shows no training task over a long stretch.
        """
        account = self._account(ticket.domain)
        for index in range(account.cursor, account.cursor + MAX_HELD_OUT_IN_A_ROW):
            if is_train(index):
                account.cursor = index + 1
                if ticket.number in self._in_flight:
                    self._in_flight[ticket.number] = (ticket, index)
                return index
        raise ValueError(
            f"domain {ticket.domain!r}: no training task among {MAX_HELD_OUT_IN_A_ROW} from index {account.cursor} on"
        )

    def cursor(self, domain: str) -> int:
        """The generator index from which the domain's next task is looked for."""
        return self._account(domain).cursor

    # Settling

    def settle(self, ticket: Ticket, outcome: Outcome, reason: str = "") -> None:
        """Say what became of a ticket, and of a lost one why (one of a few words, for the account).

        Raises ValueError if it is not in flight (settled before, or never drawn).
        """
        if self._in_flight.pop(ticket.number, None) is None:
            raise ValueError(f"ticket {ticket.number} of {ticket.domain} is not in flight: settled before?")
        account = self._account(ticket.domain)
        account.settled[outcome.value] += 1
        if outcome is Outcome.ACCEPTED:
            account.count_met(True)
        else:
            account.count_reason(outcome, reason)
            heapq.heappush(account.owed, (ticket.number, ticket.tier))
            while len(account.owed) > account.credit:
                self._write_off(ticket.domain, account)

    def in_flight(self) -> list[tuple[Ticket, int | None]]:
        """Unsettled tickets, oldest first, with their task index once taken: what to submit again after a resume."""
        return [self._in_flight[number] for number in sorted(self._in_flight)]

    def accounting(self) -> dict[str, dict[str, int]]:
        """Per domain: submitted, the four outcomes, in_flight, owed, written_off, received.

        Asserts that nothing is lost.
        """
        flying = Counter(ticket.domain for ticket, _ in self._in_flight.values())
        table = {}
        for domain, account in sorted(self._accounts.items()):
            assert account.submitted == sum(account.settled.values()) + flying[domain], (
                f"{domain}: lost count of tickets"
            )
            table[domain] = {
                "submitted": account.submitted,
                **account.settled,
                "in_flight": flying[domain],
                "owed": len(account.owed),
                "written_off": account.written_off,
                "received": account.received,
            }
        return table

    def losses(self) -> dict[str, dict[str, int]]:
        """Per domain with losses: how often it lost a group for which reason; they add up to its lost groups."""
        table = {name: dict(sorted(self._accounts[name].reasons.items())) for name in sorted(self._accounts)}
        for name, reasons in table.items():
            settled = self._accounts[name].settled
            assert sum(reasons.values()) == sum(settled.values()) - settled["accepted"], f"{name}: a loss without cause"
        return {name: reasons for name, reasons in table.items() if reasons}

    def starved(self) -> list[str]:
        """Domains that lose more than three of four groups: draws are written off now, their quota is not met."""
        return [name for name in sorted(self._quota.shares) if self._accounts[name].is_starved]

    def starving(self, domain: str) -> float:
        """The part of the domain's late draws that was written off: 0 where all were made up for."""
        return self._account(domain).starving

    def accepted_shares(self) -> dict[str, float]:
        """Each domain's part of all accepted groups so far (empty before the first)."""
        return share_of({name: account.settled["accepted"] for name, account in sorted(self._accounts.items())})

    # Weights

    @property
    def weights(self) -> dict[str, Fraction]:
        """The present exact share of each domain."""
        return dict(self._quota.shares)

    @property
    def has_moved(self) -> bool:
        """Whether the shares were ever changed since this mixture was made."""
        return isinstance(self._quota, CarriedQuota)

    def deviations(self) -> dict[str, float]:
        """Target minus ordinary draws of each domain: in (-1, 1) until weights change, then within 1 + ln(domains)."""
        return {name: float(value) for name, value in self._quota.deviations().items()}

    def set_weights(self, weights: Mapping[str, Weight], tiers: Mapping[str, Iterable[str]] | None = None) -> None:
        """Go on with these weights; what each domain is owed is carried over.  `tiers` declares domains that are new.

        Equal shares change nothing.  Raises ValueError as the constructor does, and then changes nothing.
        """
        wanted = shares(weights)
        self._tiers |= {domain: tuple(declared) for domain, declared in (tiers or {}).items()}
        if wanted == self._quota.shares:
            return
        self._admit(wanted)
        if isinstance(self._quota, ExactQuota):
            self._quota = self._carried(wanted, self._quota.deviations())
        else:
            self._quota.set_shares(wanted, self._labels(wanted))

    # State

    def state_dict(self) -> dict[str, Any]:
        """Everything that resuming needs, as JSON-able data."""
        return {
            "seed": self.seed,
            "base": _texts(self._base),
            "shares": _texts(self._quota.shares),
            "families": self._labels(self._quota.shares),
            "exact": isinstance(self._quota, ExactQuota),
            "quota": self._quota.state_dict(),
            "tiers": {
                name: {"shares": _texts(quota.shares), "quota": quota.state_dict()}
                for name, quota in self._tier_quotas.items()
            },
            "accounts": {name: account_document(account) for name, account in self._accounts.items()},
            "passed": {name: [list(pair) for pair in owed] for name, owed in self._passed.items() if owed},
            "num_tickets": self._num_tickets,
            "in_flight": [[asdict(ticket), index] for ticket, index in self.in_flight()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken.

        If this mixture was made with the weights, seed and families of the saved one, the stream goes on bit for bit,
        in the weights of that moment.  If it was made with other weights or domains, those win and quotas are counted
        from here; cursors, debts and accounts of every domain are kept either way.
        """
        self._num_tickets = int(state["num_tickets"])
        self._accounts = {name: account_from(saved) for name, saved in state["accounts"].items()}
        self._passed = {family: pairs(owed) for family, owed in state.get("passed", {}).items()}
        self._in_flight = {saved["number"]: (Ticket(**saved), index) for saved, index in state["in_flight"]}
        saved_shares = {name: Fraction(text) for name, text in state["shares"].items()}
        same = state["seed"] == self.seed and state["base"] == _texts(self._base)
        same = same and state["families"] == self._labels(saved_shares)
        present = saved_shares if same else self._base
        self._tier_quotas = {}
        self._admit(present)
        for name, saved in state["tiers"].items():
            quota = self._tier_quotas.get(name)
            if quota and saved["shares"] == _texts(quota.shares) and state["seed"] == self.seed:
                quota.load_state_dict(saved["quota"])
        if same and not state["exact"]:
            self._quota = self._carried(present)
        else:
            self._quota = self._exact(present)
        if same:
            self._quota.load_state_dict(state["quota"])

    # Inside

    def _submit(self, domain: str, tier: str, refill: int | None = None) -> Ticket:
        account = self._accounts[domain]
        ticket = Ticket(self._num_tickets, domain, tier, account.submitted, refill)
        account.submitted += 1
        self._num_tickets += 1
        self._in_flight[ticket.number] = (ticket, None)
        return ticket

    def _write_off(self, domain: str, account: Account) -> None:
        """Give up the domain's oldest debt, or leave it to the family (which remembers so many draws a member)."""
        lost = heapq.heappop(account.owed)
        account.written_off += 1
        account.count_met(False)
        if self._pass_on:
            family = self._family(domain)
            passed = self._passed.setdefault(family, [])
            heapq.heappush(passed, lost)
            if len(passed) > BURST_DRAWS * len(self._members(family)):
                heapq.heappop(passed)

    def _inherit(self, family: str) -> Ticket | None:
        """A draw of the member that is furthest behind its part of what the family took over; None if all starve."""
        heirs = [name for name in self._members(family) if not self._accounts[name].is_starved]
        if not heirs:
            return None
        heir = min(heirs, key=lambda name: ((self._accounts[name].received + 1) / self._quota.shares[name], name))
        lost, tier = heapq.heappop(self._passed[family])
        declared = self._tier_quotas[heir].shares
        self._accounts[heir].received += 1
        return self._submit(heir, tier if tier in declared else max(declared, key=declared.__getitem__), refill=lost)

    def _members(self, family: str) -> list[str]:
        """The family's domains, sorted; grouped once for each set of shares, not once a draw."""
        shares, members = self._grouped
        if shares is not self._quota.shares:
            shares, members = self._quota.shares, {}
            for name in sorted(shares):
                members.setdefault(self._family(name), []).append(name)
            self._grouped = (shares, members)
        return members.get(family, [])

    def _family(self, domain: str) -> str:
        return self._families.get(domain, domain.split("/")[0])

    def _exact(self, wanted: Mapping[str, Fraction]) -> ExactQuota:
        return ExactQuota(wanted, seed=(self.seed, "domain"), labels=self._labels(wanted))

    def _carried(self, wanted: Mapping[str, Fraction], accounts: Mapping[str, Fraction] | None = None) -> CarriedQuota:
        return CarriedQuota(wanted, accounts, seed=(self.seed, "domain"), labels=self._labels(wanted))

    def _labels(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self._family(name) for name in names}

    def _admit(self, wanted: Mapping[str, Fraction]) -> None:
        """Open an account and a tier sequence for domains that have none."""
        new = {
            name: ExactQuota(self._tier_shares(name), seed=(self.seed, name))
            for name in wanted
            if name not in self._tier_quotas
        }
        self._tier_quotas |= new
        for name in wanted:
            if name not in self._accounts:
                self._accounts[name] = Account(cursor=stable_hash(self.seed, name, "start") % START_RANGE)

    def _tier_shares(self, domain: str) -> dict[str, Fraction]:
        declared = self._tiers.get(domain, ())
        weights = self._tier_weights if self._tier_weights is not None else dict.fromkeys(declared, 1)
        usable = {tier: weights[tier] for tier in declared if exact_fraction(weights.get(tier, 0)) != 0}
        if not usable:
            raise ValueError(f"domain {domain!r} has the tiers {list(declared)}, none has a weight in {dict(weights)}")
        return shares(usable)

    def _account(self, domain: str) -> Account:
        if domain not in self._accounts:
            raise ValueError(f"domain {domain!r} was never in this mixture")
        return self._accounts[domain]


def share_of(counts: Mapping[str, int]) -> dict[str, float]:
    """Counts as parts of their sum, without zeros: q_d of the loss, given a batch's accepted groups a domain."""
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items() if count}


def _texts(values: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}
