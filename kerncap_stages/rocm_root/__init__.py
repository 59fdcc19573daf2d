"""ROCm in a root file system of its own, for machines without ROCm.

``kc-root make`` builds it, ``kc-root run -- CMD`` runs a command in it. It uses the standard library only, so
that it runs from a source tree before anything is installed: ``python3 -m kerncap_stages.rocm_root``.
"""
