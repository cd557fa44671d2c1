"""A gRPC server on grpcio with reflection, for callers with a token. `PORT` and `TOKEN` are in the environment.

With `VERSION=v1`, the reflection service has the name of version 1; otherwise only that of `v1alpha`, which grpcio-reflection serves.
"""

import os
from concurrent import futures

import grpc
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    timestamp_pb2,
)
from grpc_reflection.v1alpha import reflection, reflection_pb2

# Modules of Python hold descriptors that protoc has made of .proto texts. These are made here.
MONEY = """
name: "shop/money.proto" package: "shop" syntax: "proto3"
message_type { name: "Money"
  field { name: "units" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL json_name: "units" }
  field { name: "currency" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "currency" } }
"""
ORDERS = """
name: "shop/orders.proto" package: "shop" syntax: "proto3"
dependency: "shop/money.proto" dependency: "google/protobuf/timestamp.proto"
message_type { name: "Key"
  field { name: "id" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "id" } }
message_type { name: "Order"
  field { name: "id" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "id" }
  field { name: "total" number: 2 type: TYPE_MESSAGE type_name: ".shop.Money" label: LABEL_OPTIONAL json_name: "total" }
  field { name: "placed_at" number: 3 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL
          json_name: "placedAt" } }
service { name: "Orders"
  method { name: "Get" input_type: ".shop.Key" output_type: ".shop.Order" options { idempotency_level: NO_SIDE_EFFECTS } }
  method { name: "Watch" input_type: ".shop.Key" output_type: ".shop.Order" server_streaming: true } }
service { name: "Unserved"
  method { name: "Get" input_type: ".shop.Key" output_type: ".shop.Order" } }
"""
POOL = descriptor_pool.DescriptorPool()
POOL.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
for text in (MONEY, ORDERS):
    POOL.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
Key, Order = (message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"shop.{name}")) for name in ("Key", "Order"))


def order(key):
    made = Order(id=key.id)
    made.total.units = 9_007_199_254_740_993
    made.total.currency = "EUR"
    made.placed_at.seconds = 1_700_000_000
    return made


def get(key, context):
    if key.id == "none":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such order, secret-7f3a")
    return order(key)


def watch(key, context):
    for number in range(3):
        yield order(Key(id=f"{key.id}{number}"))


class Token(grpc.ServerInterceptor):
    """Refuses calls without the token."""

    def __init__(self, token):
        self.expected = ("authorization", f"Bearer {token}")

        def refuse(request, context):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")

        self.refused = grpc.unary_unary_rpc_method_handler(refuse)

    def intercept_service(self, continuation, details):
        if self.expected in details.invocation_metadata:
            return continuation(details)
        return self.refused


def main():
    server = grpc.server(futures.ThreadPoolExecutor(4), interceptors=[Token(os.environ["TOKEN"])])
    methods = {
        "Get": grpc.unary_unary_rpc_method_handler(get, Key.FromString, Order.SerializeToString),
        "Watch": grpc.unary_stream_rpc_method_handler(watch, Key.FromString, Order.SerializeToString),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("shop.Orders", methods)])
    if os.environ.get("VERSION") == "v1":
        name = "grpc.reflection.v1.ServerReflection"
        servicer = reflection.ReflectionServicer(["shop.Orders", name], POOL)
        asked = grpc.stream_stream_rpc_method_handler(
            servicer.ServerReflectionInfo,
            reflection_pb2.ServerReflectionRequest.FromString,
            reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        handlers = grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": asked})
        server.add_generic_rpc_handlers([handlers])
    else:
        reflection.enable_server_reflection(["shop.Orders", reflection.SERVICE_NAME], server, POOL)
    server.add_insecure_port(f"127.0.0.1:{os.environ['PORT']}")
    server.start()
    server.wait_for_termination()


main()
