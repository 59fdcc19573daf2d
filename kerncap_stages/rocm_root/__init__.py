"""A ROCm user land in a root file system of its own, for machines that have no GPU.

``kc-root make`` builds it, ``kc-root run -- CMD`` runs a command in it. Pure standard library: it runs from a
source tree, before anything is installed, as ``python3 -m kerncap_stages.rocm_root``.
"""
