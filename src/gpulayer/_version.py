__version__ = "0.1.0"
WIRE = 1  # of the messages between client, plane and worker
