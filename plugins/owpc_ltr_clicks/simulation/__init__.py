"""Users whose minds are known: clicks on judged queries, to try click models and learning on.

    from owpc_ltr_clicks import simulation as simulate

    world = simulate.truth(data)                       # how attractive every document is
    events = simulate.clicks(world, sessions=100_000)  # an Arrow table, one event a row

Everything is drawn from `seed`: the same call gives the same events.
"""

from owpc_ltr_clicks.simulation.sessions import clicks
from owpc_ltr_clicks.simulation.ubi import ubi_documents
from owpc_ltr_clicks.simulation.users import Users, World, example_world, truth

__all__ = ["Users", "World", "clicks", "example_world", "truth", "ubi_documents"]
