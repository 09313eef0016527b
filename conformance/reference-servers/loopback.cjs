// Preloaded into server-everything, which by itself listens on every interface of the machine.
const { Server } = require("node:net");

const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, { port, host: "127.0.0.1" }, ...rest);
};
