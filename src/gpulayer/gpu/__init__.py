"""What this machine has, and which of it jobs may use.

    discovery         the two steps: `discover_fast`, then `discover_gpus`
    host              cores, memory, disk, names; no process is started
    nvidia            NVML in a child (nvml_child), else nvidia_smi; both fill nvidia_cards.Reading
    apple, rocm       the other vendors; `found` is the shape that all three answer in
    absence           why there is no GPU, for people
    visibility        CUDA_VISIBLE_DEVICES and its relatives: for a task, and as a limit on us
    interpreters      every Python from 3.8 up; python_home: what one is; frameworks: what it has
    probe             does torch really compute (torch_child); on demand
    support           the matrix of what is scheduled, and how device names compare; pure
    machine           the port to files and programs that all of them look through

Drivers are only ever touched in child processes with a deadline.
"""
