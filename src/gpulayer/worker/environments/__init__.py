"""Environments for jobs that name requirements: made once, kept, shared, removed by last use.

    store     the folders: one per key, with lock, mark and users; size limit
    base      what the Python below it is and has, asked once
    making    one environment from nothing: overlay, installer, proof
    files     what the file of a job asks for; `locked`: what uv tells of a uv.lock
    packages  those of the job's own folder, which are used from there
    needs     which needs of a set of distributions are not met. Pure, but for reading metadata
    building  one command of a builder, until its end, a time limit or a cancel
    words     what of an installer's output is told on
    settings  which variables reach a builder

An environment is a virtual one of the job's own Python, with the packages of that Python behind
its own ones (`site.addsitedir`), so that what is installed there is never installed twice. It is
whole once its mark is in place; until then nobody uses it, and whoever comes next begins anew.
Where packages come from is the machine's own affair: its variables and the installers' own files.
"""
