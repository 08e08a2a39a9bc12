"""What every command that asks a cluster has in common: how to reach it, and how to answer.

::

    @click.command("list", cls=Verb)
    @asks()
    def list_command(admin: Admin, cluster: str | None) -> Table: ...

The options are put behind the command's own, in the help under a heading of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.core.cluster_file import kept
from orbitmq.cli.core.exits import (
    EXIT_CODES_HELP,
    ExitCode,
    NothingFound,
    exit_code_for_errors,
    fail,
)
from orbitmq.cli.core.printing import Answer, Output, present, watch
from orbitmq.cli.core.progress import waiting

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.client.settings import ClientSettings

__all__ = ["ClusterOptions", "ExitCode", "NothingFound", "Verb", "admin_command", "fail", "reaches"]

_PEM = click.Path(exists=True, dir_okay=False, path_type=Path)

PLACE_NAMES = (
    *("namesrv", "namespace", "access_key", "secret_key", "security_token", "tls"),
    *("tls_ca", "tls_cert", "tls_key", "tls_key_password", "tls_insecure"),
)
_IN_FILES = frozenset(name.replace("_", "-") for name in PLACE_NAMES)


def _place_option(*names: str, help: str, last: str | None = None, **settings: Any) -> Any:
    """Return an option that the environment and a file can give, too."""
    name = names[-1].removeprefix("--")
    variable = settings.pop("envvar", f"ORBITMQ_{name.upper().replace('-', '_')}")
    return click.option(
        *names,
        envvar=variable,
        default=lambda: kept(name, _IN_FILES) or last,
        help=f"{help} [env: {variable}]",
        **settings,
    )


_PLACE_OPTIONS = [
    _place_option(
        *("-n", "--namesrv"),
        envvar="NAMESRV_ADDR",
        last="127.0.0.1:9876",
        show_default="127.0.0.1:9876",
        metavar="ADDRS",
        help="Nameservers, host:port;host:port.",
    ),
    _place_option("--namespace", metavar="NAME", help="The namespace names are in."),
    _place_option("--access-key", help="Sign requests."),
    _place_option("--secret-key", help="With what."),
    _place_option("--security-token", help="And by whose leave."),
    _place_option("--tls", is_flag=True, help="Speak TLS."),
    _place_option("--tls-ca", type=_PEM, help="Whose signatures to believe (implies --tls)."),
    _place_option("--tls-cert", type=_PEM, help="Our own certificate (implies --tls)."),
    _place_option("--tls-key", type=_PEM, help="Its key."),
    _place_option("--tls-key-password", help="The key's password."),
    _place_option("--tls-insecure", is_flag=True, help="Believe any certificate (implies --tls)."),
]
_OUTPUT_OPTION = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="What stdout gets; the keys of json do not change.",
)
_WATCH_OPTIONS = [
    click.option("-w", "--watch", "is_watched", is_flag=True, help="Look again and again."),
    click.option(
        "--every", "every_s", type=float, default=2.0, show_default=True, help="Seconds between."
    ),
    click.option("--times", type=click.IntRange(1), help="End after so many looks."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """How to reach a cluster, as the command line says."""

    namesrv: str
    namespace: str | None
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    tls: bool
    tls_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    tls_key_password: str | None
    tls_insecure: bool

    def settings(self, **more: Any) -> ClientSettings:
        """Return the settings of a client; raises `ConfigError`."""
        from orbitmq.client.settings import ClientSettings
        from orbitmq.remoting.tls import Tls

        tls: Tls | bool = self.tls
        if self.tls_ca or self.tls_cert or self.tls_insecure:
            tls = Tls(
                ca_file=self.tls_ca,
                cert_file=self.tls_cert,
                key_file=self.tls_key,
                key_password=self.tls_key_password,
                verify=not self.tls_insecure,
            )
        return ClientSettings.of(
            self.namesrv,
            namespace=self.namespace,
            access_key=self.access_key,
            secret_key=self.secret_key,
            security_token=self.security_token,
            tls=tls,
            **more,
        )

    def admin(self) -> Admin:
        """Return what asks."""
        from orbitmq.admin.admin import Admin

        return Admin(self.settings())


class Verb(click.Command):
    """A command whose help tells its own options apart from those that all have."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its own options, then the shared ones."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                (shared if parameter.name in PLACE_NAMES else own).append(record)
        with formatter.section("Options"):
            formatter.write_dl(own)
        if shared:
            with formatter.section("Cluster"):
                formatter.write_dl(shared)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say what the exit codes are."""
        formatter.write_paragraph()
        formatter.write_text(self.epilog or EXIT_CODES_HELP)


def reaches(function: Callable[..., Any]) -> Callable[..., None]:
    """Give a function the cluster options as a `Place`, and its errors an exit code."""

    @functools.wraps(function)
    def command(**options: Any) -> None:
        place = ClusterOptions(**{name: options.pop(name) for name in PLACE_NAMES})
        with exit_code_for_errors():
            function(place, **options)

    return _with(command, _PLACE_OPTIONS)


def admin_command(
    *, watched: bool = False
) -> Callable[[Callable[..., Answer]], Callable[..., None]]:
    """Give a function an `Admin` and print what it returns; with `watched` as often as wished."""

    def decorate(function: Callable[..., Answer]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(
            place: ClusterOptions,
            output: Output,
            is_watched: bool = False,
            every_s: float = 0,
            times: int | None = None,
            **own: Any,
        ) -> None:
            with place.admin() as admin:
                if is_watched:
                    watch(lambda: function(admin, **own), output, every_s, times)
                else:
                    with waiting("Asking"):
                        answer = function(admin, **own)
                    present(answer, output)

        options = [_OUTPUT_OPTION, *(_WATCH_OPTIONS if watched else ())]
        return _with(reaches(command), options)

    return decorate


def _with(function: Callable[..., None], options: list[Any]) -> Callable[..., None]:
    for option in reversed(options):
        function = option(function)
    return function
