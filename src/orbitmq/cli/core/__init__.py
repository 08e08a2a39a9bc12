"""Modules that commands share: options, output, exit codes and logs."""
