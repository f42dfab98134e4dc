"""The version of the engine, which every record of a trial holds."""

ENGINE = 3
"""Version of how steps are carried out and timed, by the engine and by trials. Raise it whenever a step may take
another time than before. From 2 on gathers may go by relays, and all numbers of replicas are halved; from 3 on a paced
step is given nothing by the client."""
