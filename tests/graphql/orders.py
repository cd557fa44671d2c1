"""A GraphQL API on strawberry, for callers with a token. `PORT` and `TOKEN` are in the environment."""

import datetime
import enum
import os
from typing import Annotated

import strawberry
import uvicorn
from strawberry.asgi import GraphQL


@strawberry.enum(description="How far an order is")
class State(enum.Enum):
    OPEN = "open"
    SENT = "sent"


@strawberry.type
class Item:
    name: str
    price: float

    @strawberry.field(description="The stock, which is kept elsewhere")
    def stock(self) -> int | None:
        raise ValueError("the warehouse sleeps, secret-7f3a")


@strawberry.type
class Note:
    text: str


Part = Annotated[Item | Note, strawberry.union("Part")]


@strawberry.type(description="What someone has ordered")
class Order:
    id: strawberry.ID
    state: State
    placed: datetime.date

    @strawberry.field
    def items(self, first: int = 2) -> list[Item]:
        return [Item(name=f"item {number}", price=number + 0.5) for number in range(first)]

    @strawberry.field
    def parts(self) -> list[Part]:
        return [Note(text="gift"), Item(name="ribbon", price=1.0)]


@strawberry.input(one_of=True)
class By:
    id: strawberry.ID | None = strawberry.UNSET
    state: State | None = strawberry.UNSET


@strawberry.type
class Query:
    @strawberry.field(description="Finds an order")
    def order(self, by: By) -> Order | None:
        state = by.state if by.state is not strawberry.UNSET else State.OPEN
        number = by.id if by.id is not strawberry.UNSET else "1"
        return Order(id=number, state=state, placed=datetime.date(2026, 11, 25))

    @strawberry.field
    def stock(self) -> Item:
        return Item(name="box", price=2.0)


@strawberry.type
class Mutation:
    @strawberry.mutation
    def send(self, id: strawberry.ID) -> Order:
        return Order(id=id, state=State.SENT, placed=datetime.date(2026, 11, 25))


api = GraphQL(strawberry.Schema(query=Query, mutation=Mutation))


async def app(scope, receive, send):
    """Refuses callers without the token."""
    if scope["type"] == "http":
        given = dict(scope["headers"]).get(b"authorization")
        if given != f"Bearer {os.environ['TOKEN']}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no token"})
            return
    await api(scope, receive, send)


uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="error", lifespan="off")
