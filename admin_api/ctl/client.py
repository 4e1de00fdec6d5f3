"""A running broker's admin API, as commands ask it: every failure is one sentence on standard error and the end."""

import json
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException
from typing import Any, Final, NoReturn

import click

from admin_api.ctl.opening import OPENER
from admin_api.ctl.place import DEFAULT_ADMIN, PAGE, SOURCE
from broker import exit_status
from rsocket_wire.rsocket.foreign import NO_HTTP_LINE
from spark_sink.event_files.local_token import find_local_token, local_token_paths
from spark_sink.terminal import plain

TIMEOUT_S: Final = 10.0
PROGRAM: Final = "rsocket-broker ctl"
LISTS: Final = {  # what of `ctl` tells the names that there are, by the code of a refusal
    "no-such-route": "routes lists all, with --service NAME those of a service",
    "no-such-service": "services lists all",
    "no-such-connection": "connections lists all",
    "no-such-drain": "drains lists all",
    "no-such-redirect": "redirects lists all",
}
_WHERE: Final = f"--admin is the address of the REST API, usually {DEFAULT_ADMIN}"


class AdminClient:
    """A running broker's admin API. Every failure is one sentence on standard error and the end of the process."""

    def __init__(self, url: str, program: str = PROGRAM, token: str = "") -> None:
        """`program`: who asks, for the sentence. `token`: empty for that of this machine, if it can be found."""
        self._url: Final = url
        self._program: Final = program
        self._token: Final = token or find_local_token(url)

    def command(self, words: str) -> str:
        """A line of `ctl` that asks the same API: what is advised works as it is copied."""
        return f"{PROGRAM} {'' if self._url == DEFAULT_ADMIN else f'--admin {self._url} '}{words}"

    def get(self, path: str, needed: str, parameters: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
        """The answer to GET, a JSON object with a field `needed`; another server on that port has none."""
        query = urllib.parse.urlencode(list(parameters))
        return self._ask(urllib.request.Request(f"{self._url}{path}{'?' if query else ''}{query}"), needed)

    def change(self, method: str, path: str, needed: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to PUT or DELETE, as above. `body`: None for none."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        return self._ask(urllib.request.Request(f"{self._url}{path}", data, headers, method=method), needed)

    def _ask(self, request: urllib.request.Request, needed: str) -> dict[str, Any]:
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with OPENER.open(request, timeout=TIMEOUT_S) as answer:
                body = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            self._refused(error)
        except BadStatusLine:  # what it says is for no terminal
            tls = ", and if it speaks TLS, use https://" if self._url.startswith("http://") else ""
            self._end(f"the server at {self._url} does not speak HTTP; {_WHERE}{tls}", exit_status.NO_ANSWER)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, ssl.SSLError) and reason.reason == "WRONG_VERSION_NUMBER":
                said = f"the server at {self._url} does not speak TLS; use http:// in --admin"
                self._end(said, exit_status.NO_ANSWER)
            if isinstance(reason, ssl.SSLCertVerificationError):
                said = f"the certificate of {self._url} is not trusted: {reason.verify_message.rstrip('.')}"
                self._end(f"{said}; SSL_CERT_FILE=FILE trusts the CA in FILE", exit_status.NO_ANSWER)
            text = getattr(reason, "strerror", None) or reason
            self._end(
                f"no broker answers at {self._url} ({plain(str(text)).lower()}); --admin says where{self._port()}",
                exit_status.NO_ANSWER,
            )
        if not isinstance(body, dict) or needed not in body:
            self._end(f"the server at {self._url} is not an admin API; {_WHERE}", exit_status.NO_ANSWER)
        return body

    def _port(self) -> str:
        """Of a URL without a port, which is then that of HTTP, with which port it may be meant."""
        parts = urllib.parse.urlsplit(self._url)
        if parts.port is not None or parts.path:
            return ""
        return f", with its port: {self._url}:{urllib.parse.urlsplit(DEFAULT_ADMIN).port}"

    def get_all(self, path: str, parameters: Iterable[tuple[str, str]] = (), part_n: int = PAGE) -> dict[str, Any]:
        """The whole of a list, asked for part by part; what else stands beside it is that of the last part."""
        parameters = list(parameters)
        items: list[Any] = []
        while True:
            part = self.get(path, "items", [*parameters, ("limit", str(part_n)), ("offset", str(len(items)))])
            items += part["items"]
            if not part["items"] or len(items) >= part["total"]:
                more = {
                    name: value for name, value in part.items() if name not in ("items", "total", "offset", "limit")
                }
                return {"items": items, "total": len(items), **more}

    def _refused(self, error: urllib.error.HTTPError) -> NoReturn:
        try:
            problem = json.loads(error.read())
            text = f"{problem['code']}: {problem['detail']}"
            if problem["code"] in LISTS and "did you mean" not in text:
                text = f"{text.partition('; ')[0]}; {self.command(LISTS[problem['code']])}"
            if problem["code"] == "no-token":
                text = f"{text.partition(', as ')[0]}; {self._way_to_token()}"
        except (OSError, HTTPException, ValueError, KeyError, TypeError):
            if error.code == HTTPStatus.UPGRADE_REQUIRED:
                what = "speaks RSocket over WebSocket"
            elif NO_HTTP_LINE.endswith(f" {error.code} {error.reason}"):
                what = "speaks RSocket without HTTP"
            else:
                what = f"is not an admin API (HTTP {error.code})"
            self._end(f"the server at {self._url} {what}; {_WHERE}", exit_status.NO_ANSWER)
        self._end(plain(text), exit_status.REFUSED)

    def _way_to_token(self) -> str:
        """How this user comes by a token. What the API says is for those who ask it otherwise."""
        paths = local_token_paths(self._url)
        if not paths:
            return "--token-file FILE names one"
        places = " or ".join(map(str, paths))
        return (
            "the one of this machine is for the broker's user only: run this as that user, or give --token-file FILE"
            f" ({places} is not there, or not for you)"
        )

    def _end(self, text: str, status: int) -> NoReturn:
        source = "" if (context := click.get_current_context(silent=True)) is None else context.meta.get(SOURCE)
        of_url = f"; the URL is that of {source}" if source and status == exit_status.NO_ANSWER else ""
        click.echo(f"{self._program}: {text}{of_url}", err=True)
        sys.exit(status)
