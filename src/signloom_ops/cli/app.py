"""The command of the app."""

import re
import socket
import ssl
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from signloom.config import read_text
from signloom.errors import UserError
from signloom.paths import APP, PARAMS
from signloom_tools.command_options import group, option

LOCAL = "127.0.0.1"
Port = Annotated[int, Field(ge=1, le=65535)]


@dataclass(frozen=True, kw_only=True)
class HouseOptions:
    """How other machines of the house reach the app."""

    host: str | None = option("by which they reach this machine", None, metavar="NAME")
    certificate: Path | None = option("for TLS, PEM", None, metavar="FILE")
    key: Path | None = option("of the certificate, PEM", None, metavar="FILE")
    password_file: Path | None = option("its first line", None, metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class AppOptions:
    """Record, label, deliver and translate in a browser, and translate films that programs send,
    which any program of this machine may (docs/serving.md).

    The address that it prints has a secret: who has it may use the app.
    """

    port: Port = option("", 8000)
    prompts: Path | None = option("sentences to record, one a line", None, metavar="FILE")
    no_browser: bool = option("only print the address", False)
    house: HouseOptions = group(HouseOptions, "for other machines of the house, all together")


def run_app(options: AppOptions) -> None:
    """Serve until Ctrl-C.

    Raises:
        UserError: If the options do not fit, or the port or the project is in use.
    """
    house = options.house
    password = _check_house(house)
    from signloom_ops.app.connections import build_server
    from signloom_ops.app.guard import Guard
    from signloom_ops.app.server import App, read_consent
    from signloom_ops.lock import hold_lock
    from signloom_ops.options import load_ops

    prompts = _read_prompts(options.prompts)
    # An error here, not on the page or in the server, if one cannot be read.
    read_consent()
    load_ops(PARAMS)

    with hold_lock(APP / ".lock", hint="use it, or stop it first"), socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("0.0.0.0" if house.host else LOCAL, options.port))
            listener.listen()  # before the address is printed
        except OSError as error:
            raise UserError(
                f"port {options.port}: {error.strerror}; choose another, --port"
            ) from None
        app = App(prompts=prompts)
        names = [house.host] if house.host else [LOCAL, "localhost"]
        guard = Guard(
            app.build(),
            hosts=hosts_of(names, options.port, is_secure=bool(house.host)),
            password=password,
            secure=bool(house.host),
        )
        app.login = guard.login
        secret = "" if password else f"?token={guard.token}"
        address = f"http{'s' if house.host else ''}://{names[0]}:{options.port}/{secret}"
        reach = "other machines reach it" if house.host else "only this machine can open it"
        header = "-H 'Authorization: Bearer PASSWORD' " if password else ""
        curl = f"curl -F film=@new.mp4 {header}{address.partition('?')[0]}translate"
        print(address, flush=True)
        print(f"Open this in a browser; {reach}. Ctrl-C ends it.\n{curl}", file=sys.stderr)
        if not options.no_browser and not house.host:
            webbrowser.open(address)
        server = build_server(guard, certificate=house.certificate, key=house.key)
        server.run(sockets=[listener])


def hosts_of(names: Sequence[str], port: int, *, is_secure: bool) -> list[str]:
    """Return what browsers write into `Host`: small, without the port where it is the usual one."""
    usual, names = 443 if is_secure else 80, [name.lower() for name in names]
    return [*(f"{name}:{port}" for name in names), *(names if port == usual else ())]


def _check_house(house: HouseOptions) -> str:
    """Return the password; other machines get in with TLS and a password, or not at all."""
    needed = {
        "--certificate": house.certificate,
        "--key": house.key,
        "--password-file": house.password_file,
    }
    files = {name: path for name, path in needed.items() if path}
    if not house.host:
        if files:
            raise UserError(f"{', '.join(files)}: only with --host")
        return ""
    if missing := [name for name in needed if name not in files]:
        raise UserError(
            f"--host {house.host}: others could read along and get in; give "
            f"{', '.join(missing)}, too (without --host the app is for this machine alone)"
        )
    if not re.fullmatch(r"[A-Za-z0-9.-]*[A-Za-z1-9][A-Za-z0-9.-]*", house.host):
        raise UserError(
            f"--host {house.host}: expected the name of this machine, or its IPv4 address, as "
            "browsers write it (signs.lan, 192.168.1.20); the app listens on all of its addresses"
        )
    for name, path in files.items():
        if not path.is_file():
            raise UserError(f"{name} {path}: there is no such file")
    certificate, key, password_file = files.values()
    _check_certificate(certificate, key)
    lines = read_text(password_file, hint="save it as UTF-8").splitlines()
    if not lines or len(lines[0]) < 8:
        raise UserError(f"{password_file}: a password has 8 characters or more")
    return lines[0]


def _check_certificate(certificate: Path, key: Path) -> None:
    """Refuse files with which no TLS can be spoken."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            certificate, key, password=lambda: ""
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UserError(
            f"--certificate {certificate}, --key {key}: no TLS can be spoken with them ({error}); "
            "give a certificate and its own key, both PEM, the key without a password"
        ) from None


def _read_prompts(path: Path | None) -> list[str]:
    """Return the sentences to record; without a file the page asks for each."""
    if path is None:
        return []
    if not path.is_file():
        raise UserError(f"--prompts {path}: there is no such file")
    lines = read_text(path, hint="save it as UTF-8").splitlines()
    return [line.strip() for line in lines if line.strip()]
