"""Which process of a run lives on which node of its job.

In: the groups of nodes of the config, and how many processes of a role there are.  Out: node numbers.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from train.config_cluster import ROLES, ClusterConfig, NodesConfig


@dataclass(frozen=True, slots=True)
class Placement:
    """Node number of every process of each role, in the order of ranks; empty where everything is on one machine."""

    trainers: tuple[int, ...] = ()
    engines: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()


def placement_of(cluster: ClusterConfig) -> Placement:
    """Where the processes of a run go.  Raises ValueError where a node that was asked for would have nothing to do."""
    nodes = nodes_of_roles(cluster.nodes)
    counts = {
        "trainer": ("cluster.trainer.ranks", cluster.trainer.ranks),
        "engine": ("cluster.engine.count", cluster.engine.count),
        "worker": ("cluster.worker.count", cluster.worker.count),
    }
    _check_none_idle(nodes, counts)
    found = {role: tuple(spread(counts[role][1], nodes[role])) for role in ROLES}
    return Placement(trainers=found["trainer"], engines=found["engine"], workers=found["worker"])


def nodes_of_roles(groups: Mapping[str, NodesConfig]) -> dict[str, list[int]]:
    """Role -> numbers of the nodes that have it.  Groups are numbered through in their order.

    Example: ``{"a": 2 nodes for trainers, "b": 1 for engines}`` gives ``{"trainer": [0, 1], "engine": [2], …}``
    """
    found: dict[str, list[int]] = {role: [] for role in ROLES}
    first = 0
    for group in groups.values():
        for role in group.roles:
            found[role] += range(first, first + group.count)
        first += group.count
    return found


def spread(count: int, nodes: Sequence[int]) -> list[int]:
    """A node for each of `count` processes: neighbours together, numbers on two nodes differ by at most one.

    Neighbouring trainer ranks share expert-parallel groups, whose traffic should stay within a node.

        spread(4, [0, 1]) == [0, 0, 1, 1]
    """
    return [nodes[number * len(nodes) // count] for number in range(count)]


def resource(node: int) -> dict[str, float]:
    """What a Ray actor asks for to be put on this node, which alone offers it."""
    return {node_resource(node): 0.001}


def node_resource(node: int) -> str:
    """The name of a Ray resource that only this node offers."""
    return f"jointrl_node_{node}"


def _check_none_idle(nodes: Mapping[str, Sequence[int]], counts: Mapping[str, tuple[str, int]]) -> None:
    used: set[int] = set()
    for role, (key, count) in counts.items():
        used |= set(spread(count, nodes[role]))
        if not count:
            raise ValueError(f"{key}=0: a run needs at least one")
    idle = sorted({node for own in nodes.values() for node in own} - used)
    if idle:
        roles = sorted(role for role, own in nodes.items() if idle[0] in own)
        keys = " or ".join(counts[role][0] for role in roles)
        raise ValueError(f"cluster.nodes: node {idle[0]} would be idle; raise {keys}, or ask for fewer nodes")
