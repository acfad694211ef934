"""The command line: collects the commands and turns every error into its exit status."""

from __future__ import annotations

import click

from assay.bundle import BundleError, FaultsError
from assay.codegen.cache import CacheError
from assay.codegen.toolchain import ToolchainError

from .bundling import MergeError
from .commands.attest_command import attest_command
from .commands.bundle_command import bundle_command
from .commands.compare_command import compare_command
from .commands.coverage_command import coverage_command
from .commands.doctor_command import doctor_command
from .commands.emulate_command import emulate_command
from .commands.explain_command import explain_command
from .commands.inspect_command import inspect_command
from .commands.kv_size_command import kv_size_command
from .commands.options import BAD_ENVIRONMENT, BAD_INPUT, FAILED, NO_EVIDENCE, print_faults
from .commands.plan_command import plan_command
from .commands.qualify_command import qualify_command
from .commands.qualify_device_command import qualify_device_command
from .commands.retarget_command import retarget_command
from .commands.run_command import run_command
from .commands.schema_command import schema_command
from .commands.show_command import show_command
from .commands.upgrade_command import upgrade_command
from .commands.verify_command import verify_command
from .commands.wheel_command import wheel_command
from .comparing.errors import BuildEnvironmentError
from .device.errors import NotAvailable, RetargetError
from .executing import EvidenceError
from .lock import LockError
from .upgrading.building import BuildFailed
from .upgrading.environments import EnvironmentFailed
from .wheel_building import WheelError

# The first that fits decides.  A bundle that cannot be written is the environment's fault; commands that read one say
# for themselves what a bad one means.
_STATUSES: tuple[tuple[type[FaultsError], int], ...] = (
    (EvidenceError, NO_EVIDENCE),
    (NotAvailable, NO_EVIDENCE),
    (ToolchainError, BAD_ENVIRONMENT),
    (CacheError, BAD_ENVIRONMENT),
    (EnvironmentFailed, BAD_ENVIRONMENT),
    (BuildFailed, BAD_ENVIRONMENT),
    (BuildEnvironmentError, BAD_ENVIRONMENT),
    (LockError, FAILED),
    (MergeError, FAILED),
    (WheelError, FAILED),
    (RetargetError, FAILED),
    (BundleError, BAD_ENVIRONMENT),
    (FaultsError, BAD_INPUT),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="assay")
def assay() -> None:
    """Build GPU kernels ahead of time and prove each binary before it ships."""


for _command in (
    qualify_command,
    plan_command,
    inspect_command,
    verify_command,
    explain_command,
    emulate_command,
    run_command,
    qualify_device_command,
    retarget_command,
    attest_command,
    show_command,
    doctor_command,
    schema_command,
    bundle_command,
    wheel_command,
    kv_size_command,
    coverage_command,
    upgrade_command,
    compare_command,
):
    assay.add_command(_command)


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit status."""
    try:
        status = assay.main(arguments, prog_name="assay", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return BAD_INPUT
    except click.Abort:
        click.echo("interrupted; what was finished is in the cache: run again to go on", err=True)
        return 130
    except FaultsError as error:
        print_faults(error)
        return next(status for kind, status in _STATUSES if isinstance(error, kind))
