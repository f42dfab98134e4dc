"""Checks addresses of nodes: autosync reaches nodes by IPv4 only, so an IPv6 address is refused on input."""

from ipaddress import ip_address

from autosync.errors import ClusterError
from autosync.spec import quote

IPV4_ONLY = "autosync reaches nodes by IPv4 only"


def ipv4_address(text: str, rule: str) -> str:
    """Return the IPv4 address in canonical form. Raises `ValueError` with the `rule` that an address must follow."""
    if is_ipv6(text):
        raise ValueError(f"{IPV4_ONLY}, and {quote(text)} is an IPv6 address; give an IPv4 address.")
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError(f"{rule}, not {quote(text)}.") from None


def is_ipv6(address: str) -> bool:
    """True if `address` is an IPv6 address, with or without brackets, a port or a scheme such as ray://.

    A host name is not, even if it resolves to an IPv6 address.
    """
    host = (address.partition("://")[2] or address).partition("/")[0]
    return host.startswith("[") or host.count(":") > 1


def check_ipv4_to_join(address: str, given_by: str) -> None:
    """Raise `ClusterError` for the IPv6 address of a Ray cluster; `given_by` names the option or the variable."""
    if is_ipv6(address):
        raise ClusterError(
            f"{IPV4_ONLY}, and {given_by} {quote(address)} is an IPv6 address; start Ray with an IPv4 address as "
            "--node-ip-address, and give that address with its port."
        )


def check_ipv4_nodes(addresses: list[str]) -> None:
    """Raise `ClusterError` if Ray reports an IPv6 address for a node of the running cluster."""
    if ipv6 := [address for address in addresses if is_ipv6(address)]:
        raise ClusterError(
            f"{IPV4_ONLY}, and Ray knows a node by the IPv6 address {quote(ipv6[0])}; start Ray there with an IPv4 "
            "address as --node-ip-address."
        )
