// Makes every server of the process listen on loopback only.
import { Server } from "node:net";

const listen = Server.prototype.listen;

Server.prototype.listen = function (port, ...rest) {
  if (!/^\d+$/.test(String(port))) return listen.call(this, port, ...rest);
  const ready = rest.find((argument) => typeof argument === "function");
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ready);
};
