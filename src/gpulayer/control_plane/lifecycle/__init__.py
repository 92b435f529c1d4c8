"""The law of jobs and tasks: pure functions from records and news to `Changes`.

    jobs    submitted, placed, failed, cancelled; the last move of a job with its result
    tasks   started, ended, late, disconnected: what a task's news mean for its job
    retry   whether there is another attempt, and when
    credentials  when one is no good, used up, renewed
    moves   the one place that moves a row, checked against `contracts.states`

Nothing here reads a clock, draws a random number or knows a store: time, fences, jitter and rows
come in as arguments. A rule either gives all the changes of one transaction or raises.
"""
