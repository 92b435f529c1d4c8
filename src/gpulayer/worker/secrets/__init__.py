"""The secrets that this machine's owner lets jobs have, and how a value is read.

| file | what it does |
|---|---|
| `sources` | `env:NAME`, `file:PATH`, `command:LINE`: what an owner may write behind a name |
| `book` | the owner's list: a file that nobody else can read; the names that can be given now |
| `files` | the text of a private file |
| `commands` | what a command prints, within limits, and nothing left of it |

A value is never in a message: what fails is told as an `Unusable`, in words of our own.
"""
