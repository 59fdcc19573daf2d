"""Read the configuration that a root takes over from this machine: mirror, proxies, certificates, pip.

This module only reads. Its callers write the configuration into the root.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

MIRROR_VARIABLE = "KERNCAP_ROOT_MIRROR"
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")

# apt settings of the machine's network, as opposed to its installation.
_NETWORK_OPTION = re.compile(
    r"Acquire::(https?|ftp)::(?!Proxy-Auto-Detect|CAInfo|Ssl)|Acquire::(Check-Valid-Until|Check-Date|Retries|ForceIPv[46])\b"
)
# Variables in which common tools look for certificates.
CA_VARIABLES = (
    "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
)  # fmt: skip


def _read_output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def find_archive_mirror(given: str | None = None) -> str | None:
    """Return Debian's archive: the given one, else the machine's; None lets mmdebstrap choose."""
    if chosen := given or os.environ.get(MIRROR_VARIABLE):
        return chosen.rstrip("/")
    rows = _read_output(
        "apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages"
    )
    for row in rows.splitlines():
        origin, _, rest = row.partition(" ")
        label, _, uri = rest.partition(" ")
        if (origin, label) == ("Debian", "Debian") and uri.startswith(("http:", "https:")):
            return uri.rstrip("/")
    return None


def list_apt_network_options() -> list[str]:
    """Return the lines of apt configuration that a root needs to reach the archive from this machine."""
    lines = []
    for line in _read_output("apt-config", "dump").splitlines():
        name, _, value = line.partition(" ")
        if _NETWORK_OPTION.match(name) and value != '"";':
            lines.append(line)
    return lines


def read_pip_settings() -> dict[str, str]:
    """Read the machine's pip settings from pip's files, in pip's order. pip itself may not be installed.

    Variables named ``PIP_…`` are not included, because commands in the root inherit them.
    """
    home = Path.home()
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf",
             Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf",
             Path(sys.prefix) / "pip.conf"]  # fmt: skip
    if named := os.environ.get("PIP_CONFIG_FILE"):
        files = [] if named == os.devnull else [*files, Path(named)]
    parser = configparser.RawConfigParser()
    parser.read([file for file in files if os.access(file, os.R_OK)])
    return {
        f"{section}.{name}": value for section in parser.sections() for name, value in parser.items(section)
    }


def format_pip_configuration(settings: dict[str, str]) -> str:
    """Return ``settings`` as the text of a pip.conf."""
    text = ""
    for section in sorted({key.partition(".")[0] for key in settings}):
        text += f"[{section}]\n"
        for key, value in settings.items():
            if key.startswith(section + "."):
                indented = value.strip().replace("\n", "\n    ")
                text += f"{key.partition('.')[2]} = {indented}\n"
    return text


def list_local_paths(settings: dict[str, str]) -> list[Path]:
    """List the paths in the settings of certificates and pip. They must be visible in the root, too."""
    names = [os.environ.get(variable, "") for variable in CA_VARIABLES]
    values = list(settings.values()) + [v for k, v in os.environ.items() if k.startswith("PIP_")]
    names += [word for value in values for word in value.split()]
    paths = []
    for name in names:
        path = Path(name)
        if name.startswith("file:"):  # an index links to files beside it
            path = Path(urlsplit(name).path).parent
        if path.is_absolute() and path.exists() and path != Path("/"):
            paths.append(path)
    return paths
