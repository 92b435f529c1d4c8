"""Files that jobs bring and leave, kept by the digest of their bytes.

    store     LocalArtifacts: one folder on this machine
    collect   what a job left in its output folder, into a store

A digest is the only name, so equal files are kept once, no path of a user reaches the disk, and
what is served is always what was stored. Which artifacts are still needed is known by the store
of jobs, not here.
"""
