"""The client behind a reverse proxy: its address, and the address of the server that it has asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.types import Scope

from transduce.core.errors import UserError
from transduce.wings.serving.visit import current

Client = tuple[str, int]  # address and port; the port is 0 behind a proxy
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+\Z")
HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]+\Z")


class Proxies:
    """The proxies that are ``trusted``, by their addresses or networks, such as 127.0.0.1 or 10.0.0.0/8.

    A trusted proxy names the client in ``X-Forwarded-For``, the client's scheme in ``X-Forwarded-Proto``, and the path
    of the server in ``X-Forwarded-Prefix``. Every client can send these headers, so they mean nothing without a trusted
    proxy. Raises UserError for a text that is no address.
    """

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._trusted = [_network(each) for each in trusted]

    def client(self, scope: Scope) -> Client | None:
        """The client of a request."""
        client: Client | None = scope.get("client")
        if not self._is_proxy(client):
            return client
        hops = [each for value in _values(scope["headers"], b"x-forwarded-for") for each in value.split(",")]
        return self._client(hops) or client

    def base(self) -> str:
        """The address of the server as the client of the current request sees it, without a final "/". Empty if the
        request has no header Host.
        """
        visit = current()
        if visit is None:
            return ""
        headers, scheme, prefix = visit.scope["headers"], visit.scope["scheme"], ""
        if self._is_proxy(visit.scope.get("client")):
            given = _last(headers, b"x-forwarded-proto").lower()
            scheme = given if given in ("http", "https") else scheme
            given = _last(headers, b"x-forwarded-prefix").rstrip("/")
            prefix = given if PREFIX.match(given) else ""
        host = _last(headers, b"host")
        return f"{scheme}://{host}{prefix}" if HOST.match(host) else prefix

    def _is_proxy(self, client: Client | None) -> bool:
        return bool(self._trusted) and client is not None and self._trusts(client[0])

    def _client(self, hops: Sequence[str]) -> Client | None:
        """The last hop that is no trusted proxy. The hops before it come from the client itself, so they may lie."""
        found = None
        for hop in reversed(hops):
            address = _address(hop)
            if address is None:
                break
            found = (address, 0)
            if not self._trusts(address):
                break
        return found

    def _trusts(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:  # such as a socket of a test
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in each for each in self._trusted)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise UserError(
            f"--trust-proxy {text}: the address of a proxy was expected, such as 127.0.0.1, or a network such as "
            "10.0.0.0/8"
        ) from error


def _address(hop: str) -> str | None:
    """The address in a part of X-Forwarded-For, which may have a port; None if there is none."""
    text = hop.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _last(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    values = _values(headers, name)
    return values[-1].rpartition(",")[2].strip() if values else ""
