"""Which value somebody meant who wrote one that its option does not take: the ends of mistakes."""

import difflib
import re
from collections.abc import Callable
from typing import Final

from broker.config.options import OptionDoc
from broker.config.quantities import SIZE, TIME
from broker.config.sections.files import MADE_BY
from broker.config.toml import shown_value, toml_text
from broker.config.urls import meant_url
from rsocket_wire.errors import BrokerError
from rsocket_wire.methods import CHOOSERS, CHOOSERS_ALIASES, WRAPPERS, plain_name
from rsocket_wire.quantities import meant_number

_TRUE: Final = ("true", "yes", "on", "1", "y")
_FALSE: Final = ("false", "no", "off", "0", "n")
# What other programs call a word of ours, where the option has that.
_SAME: Final = {
    **dict.fromkeys(("trace", "verbose", "all"), "debug"),
    **dict.fromkeys(("fatal", "critical", "quiet"), "error"),
    **dict.fromkeys(("on", "true", "yes", "1", "enabled", "require"), "required"),
    **dict.fromkeys(("none", "false", "no", "disabled", "disable"), "off"),
}
# Kinds of identities, by what others call them.
_ACCEPTED: Final = {
    **dict.fromkeys(("password", "passwords", "user", "users", "basic", "simple"), "user"),
    **dict.fromkeys(("jwt", "token", "tokens", "bearer", "oauth", "oauth2", "oidc"), "jwt"),
    **dict.fromkeys(("tls", "mtls", "cert", "certificate", "certificates"), "certificate"),
}
_LISTENS: Final = '["tcp://127.0.0.1:7878"]'
_NAMES: Final = re.compile(r"[\w.@:*-]+([ \t]*,[ \t]*[\w.@:*-]+)+")  # which may have commas only between them

Read = Callable[[object], object]  # of a value, or of one item of a list; BrokerError "bad-config"


def meant_value(doc: OptionDoc, raw: object, read: Read) -> str:
    """`; write 60`; empty: nothing that is sure. Never of a secret."""
    if doc.option.is_secret:
        return ""
    if doc.is_list:
        return _list_of(doc, raw, read)
    if isinstance(raw, list | tuple) and len(raw) == 1 and isinstance(raw[0], str | int | float):
        wrong = _fault(read, raw[0])
        if not wrong:
            return f"; write {toml_text(raw[0])}, without brackets"
        return meant_value(doc, raw[0], read) or ("" if wrong.startswith("must be") else f"; {wrong}")
    if isinstance(raw, dict | list) and doc.name in MADE_BY:
        return f'; write {doc.key} = "FILE", and {MADE_BY[doc.name]} makes the lines of that file'
    if doc.words:
        word = str(raw).lower()
        if doc.name == "auth.mode" and word in _ACCEPTED:
            return f'; write mode = "required" and accept = ["{_ACCEPTED[word]}"] in [auth]'
        same = [_SAME[word]] if _SAME.get(word) in doc.words else []
        near = same or difflib.get_close_matches(word, doc.words, 1)
        return f"; write {toml_text(near[0])}" if near else ""
    if doc.option.form == "chooser":
        word, known = plain_name(str(raw)), (*CHOOSERS, *WRAPPERS)
        same = [each for each in known if plain_name(each) == CHOOSERS_ALIASES.get(word, word)]
        near = same or ([] if ":" in word else difflib.get_close_matches(str(raw).lower(), known, 1))
        return f"; write {toml_text(near[0])}" if near else ""
    if doc.hint is bool:
        word = str(raw).lower()
        return "; write true" if word in _TRUE else "; write false" if word in _FALSE else ""
    if doc.name == "server.workers" and str(raw).lower() in ("auto", "max"):
        return "; write 0 for one a CPU"
    if doc.hint in (int, float):
        return _number_of(doc, raw)
    if doc.option.form == "HOST:PORT" and isinstance(raw, int) and not isinstance(raw, bool):
        return f'; write "127.0.0.1:{raw}"'
    if doc.option.form == "HOST:PORT" and raw is False:
        return '; write "off"'
    if isinstance(raw, int | float) and not isinstance(raw, bool) and doc.option.form == "":
        return f'; write "{raw}"'
    return ""


def _number_of(doc: OptionDoc, raw: object) -> str:
    if isinstance(raw, bool) or not isinstance(raw, str | float) or doc.option.form in (TIME, SIZE):
        return ""  # a text without a letter is milliseconds to samd: nobody knows which was meant
    low, high = doc.option.within
    found = meant_number(str(raw), doc.unit, doc.hint is int)
    if found is None or not low <= found <= high:
        return ""
    return f"; write {int(found) if found == int(found) else f'{found:g}'}"


def _list_of(doc: OptionDoc, raw: object, read: Read) -> str:
    """What stands without brackets; an example instead of what can be no item."""
    if not isinstance(raw, str | int) or isinstance(raw, bool) or raw == "":
        return f"; write it as in {_LISTENS if doc.option.form in ('URL', 'dial') else doc.option.example}"
    items = meant_items(doc, str(raw), read)
    return f"; write {shown_value(items)}" if items else f"; {_fault(read, raw)}"


def meant_items(doc: OptionDoc, text: str, read: Read) -> list[str]:
    """The items of a text that has them in brackets, in quotes, or with other signs between; empty: nothing is sure."""
    inner = text.strip()
    inner = inner[1:-1] if inner[:1] == "[" and inner[-1:] == "]" else inner
    is_whole = doc.option.form in ("subject", "text", "routes") and not _NAMES.fullmatch(inner)  # which hold both
    items = [inner] if is_whole else re.split(r"[\s,;]+", inner)
    meant = [_meant_item(doc.option.form, each, read) for item in items if (each := item.strip("\"'"))]
    return meant if all(meant) else []


def _meant_item(form: str, item: str, read: Read) -> str:
    """The item, with the scheme that it is without; empty: nothing is sure."""
    others = {
        **dict.fromkeys(("URL", "dial"), () if item.startswith("http") else (meant_url(item),)),  # one of two
        "endpoint": (f"tcp://{item}", f"tcp://127.0.0.1:{item}", f"ipc://{item}"),
        "identity": (_ACCEPTED.get(item.lower(), ""),),
        "name": (item.partition("://")[2],),
    }
    return next((each for each in (item, *others.get(form, ())) if each and not _fault(read, each)), "")


def _fault(read: Read, raw: object) -> str:
    """What is wrong with it; empty: nothing."""
    try:
        read(raw)
    except BrokerError as error:
        return error.text
    return ""
