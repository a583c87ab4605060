"""Users of SASL from a file as the real server reads it: a section `Server` of Java's login configuration.

    Server {
        org.apache.zookeeper.server.auth.DigestLoginModule required
        user_alice="her password";
    };

Rules of this module:
  - names of users stand behind `user_`, as in the real server; other options and sections are passed over;
  - a file without the section, or of which the section names no user, is refused: nobody could log in.

Source: ServerCnxnFactory.configureSaslLogin, DigestLoginModule.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|/\*.*?\*/|//[^\n]*|^\s*#[^\n]*', re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r'(?:^|[;}\s])"?Server"?\s*\{((?:"(?:\\.|[^"\\])*"|[^"}])*)\}')
_USER = re.compile(r'\buser_([^\s=]+)\s*=\s*"((?:\\.|[^"\\])*)"')


def read_jaas(path: Path) -> dict[str, str]:
    """User name to password.

    Raises:
        ConfigError: the file cannot be read, or names no user of a server.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError:
        raise ConfigError("it is no text", where=str(path), right="a login configuration in UTF-8") from None
    return parse_jaas(text, str(path))


def parse_jaas(text: str, name: str = "jaas.conf") -> dict[str, str]:
    """The users in the text of a login configuration; `name` is said in errors.

    >>> parse_jaas('Server { a.DigestLoginModule required user_alice="secret" user_bob="b"; };')
    {'alice': 'secret', 'bob': 'b'}
    """
    section = _SECTION.search(_COMMENT.sub(lambda found: found[1] or " ", text))
    if section is None:
        raise ConfigError("there is no section Server", where=name, right="Server { ... };")
    users = {user: re.sub(r"\\(.)", r"\1", password) for user, password in _USER.findall(section[1])}
    if not users:
        raise ConfigError("the section Server names no user", where=name, right='user_NAME="PASSWORD"')
    return users
