"""Options and output that all commands with a cluster share: connection, login and format.

::

    @click.command("list", cls=Verb)
    @admin_command()
    def list_command(admin: Admin, cluster: str | None) -> Table: ...

The shared options follow the command's own options; the help lists them under "Cluster".
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
    """Return an option whose value may also come from the environment or from a file."""
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
        help="Addresses of the nameservers, host:port;host:port.",
    ),
    _place_option("--namespace", metavar="NAME", help="Namespace of all topics and groups named."),
    _place_option("--access-key", help="Access key of the ACL account."),
    _place_option("--secret-key", help="Secret key that belongs to --access-key."),
    _place_option("--security-token", help="Temporary security token (STS) of the ACL account."),
    _place_option("--tls", is_flag=True, help="Encrypt connections with TLS."),
    _place_option(
        "--tls-ca",
        type=_PEM,
        help="CA certificates used to verify servers, PEM (implies --tls).",
    ),
    _place_option("--tls-cert", type=_PEM, help="Client certificate, PEM (implies --tls)."),
    _place_option("--tls-key", type=_PEM, help="Private key that belongs to --tls-cert, PEM."),
    _place_option("--tls-key-password", help="Password of the private key in --tls-key."),
    _place_option(
        "--tls-insecure",
        is_flag=True,
        help="Do not verify the certificates of servers (implies --tls).",
    ),
]
_OUTPUT_OPTION = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Format of the output on stdout; JSON keys are stable across versions.",
)
_WATCH_OPTIONS = [
    click.option(
        "-w",
        "--watch",
        "is_watched",
        is_flag=True,
        help="Repeat the command and print its output each time.",
    ),
    click.option(
        "--every",
        "every_s",
        type=float,
        default=2.0,
        show_default=True,
        help="Seconds between two outputs of --watch.",
    ),
    click.option("--times", type=click.IntRange(1), help="Number of outputs of --watch."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Values of the cluster options: addresses, namespace, login and TLS."""

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
        """Return an `Admin` with these settings."""
        from orbitmq.admin.admin import Admin

        return Admin(self.settings())


class Verb(click.Command):
    """A command whose help lists its own options and the shared cluster options separately."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the shared ones."""
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
        """Write the exit codes, or the command's own epilog."""
        formatter.write_paragraph()
        formatter.write_text(self.epilog or EXIT_CODES_HELP)


def reaches(function: Callable[..., Any]) -> Callable[..., None]:
    """Pass the cluster options as `ClusterOptions` to a function; turn its errors to exit codes."""

    @functools.wraps(function)
    def command(**options: Any) -> None:
        place = ClusterOptions(**{name: options.pop(name) for name in PLACE_NAMES})
        with exit_code_for_errors():
            function(place, **options)

    return _with(command, _PLACE_OPTIONS)


def admin_command(
    *, watched: bool = False
) -> Callable[[Callable[..., Answer]], Callable[..., None]]:
    """Pass an `Admin` to a function and print its answer; `watched` adds --watch and --every."""

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
