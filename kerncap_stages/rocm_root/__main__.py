"""``python3 -m kerncap_stages.rocm_root``: the same as ``kc-root``."""

from kerncap_stages.rocm_root.cli import main

main()
