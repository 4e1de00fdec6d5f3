"""The settings of the core from a configuration: each has the value of the option with its name.

    option  limits.max_connections ──> Settings.max_connections
            cluster.cost           ──> ClusterSettings.link_cost     by another name: OTHER_NAMES
            events.requests        ──> Settings.single_requests      worked out from others: WORKED_OUT

An option that is a setting of the core needs no line here.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from broker.cluster.settings import ClusterSettings
from broker.config.auth import roles_of
from broker.config.cluster import NO_NAME, is_in_cluster, reachable, secret_of
from broker.config.options import OPTIONS, SERVICE_KEYS, Config, one_of_requests
from broker.forwarding.settings import Settings
from broker.routing.policies import Policy
from rsocket_wire.wire.ids import parse_id

OTHER_NAMES: Final = {  # setting -> option
    "annotations_from_clients": "annotations.from_clients",
    "annotations_to_clients": "annotations.to_clients",
    "auth_accept": "auth.accept",
    "auth_mode": "auth.mode",
    "require_annotations": "annotations.require",
    "is_mesh": "cluster.mesh",
    "link_cost": "cluster.cost",
    "version": "annotations.version",
}
# In `settings_of` and in `cluster_settings_of`.
WORKED_OUT: Final = {"roles", "policy", "policies", "broker_name", "single_requests", "snapshot_s"}
CLUSTER_WORKED_OUT: Final = {"secret", "principals", "peers", "urls", "client_urls", "mates"}


def options_of(settings: type[Settings | ClusterSettings]) -> dict[str, str]:
    """The name of the option, `limits.max_frame_bytes`, for each setting that is copied from one. KeyError names a
    setting that has none and is not worked out."""
    by_key = {doc.key: doc.name for doc in OPTIONS.values()} | OTHER_NAMES
    worked_out = WORKED_OUT if settings is Settings else CLUSTER_WORKED_OUT
    copied = [each.name for each in fields(settings) if each.name not in worked_out]
    for name in copied:
        if name not in by_key:
            raise KeyError(f"{settings.__name__}.{name} has no option: declare one in broker/config/sections")
    return {name: by_key[name] for name in copied}


def settings_of(config: Config) -> Settings:
    """What of the configuration concerns the core."""
    has_events = bool(config.events.dir)  # else nobody would take single requests and snapshots
    return Settings(
        policy=_policy(config, {}),
        policies={name: _policy(config, own) for name, own in config.service.items()},
        roles=roles_of(config.role),
        broker_name=config.broker.name if config.broker.name != NO_NAME else "",
        single_requests=one_of_requests(config.events.requests) if has_events else 0,
        snapshot_s=config.events.snapshot_s if has_events else 0.0,
        **_copied(config, _OPTIONS),
    )


def cluster_settings_of(config: Config, mates: tuple[str, ...] = ()) -> ClusterSettings | None:
    """What of the configuration concerns the cluster; None when there is to be none. OSError of `secret_file`.

    `mates`: ids of workers whose routes count as its own. Where others reach this broker is known for certain when it
    listens: see `reachable`.
    """
    cluster = config.cluster
    if not is_in_cluster(cluster):
        return None
    listeners = [str(listen) for listen in config.server.listen]
    own = [str(listen) for listen in cluster.listen]
    return ClusterSettings(
        secret=secret_of(cluster),
        principals=list(cluster.principals),
        peers=[str(peer) for peer in cluster.peers if not peer.finder],
        urls=reachable(cluster.advertise, own or listeners),
        client_urls=reachable(cluster.client_urls, listeners),
        mates=[parse_id(each) for each in mates],
        **_copied(config, _CLUSTER_OPTIONS),
    )


def _copied(config: Config, names: Mapping[str, str]) -> dict[str, Any]:
    """The values of these options, by setting."""
    docs = {setting: OPTIONS[name] for setting, name in names.items()}
    return {setting: getattr(getattr(config, doc.section), doc.key) for setting, doc in docs.items()}


def _policy(config: Config, own: Mapping[str, object]) -> Policy:
    """What a service has of its own, and for the rest what all have."""
    values: dict[str, Any] = _copied(config, {key: doc.name for key, doc in SERVICE_KEYS.items()})
    return Policy(**{**values, **own})


_OPTIONS: Final = options_of(Settings)
_CLUSTER_OPTIONS: Final = options_of(ClusterSettings)
