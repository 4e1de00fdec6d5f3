// What the scripts share: broker frames written from the specification's diagrams, connecting, and talking to the test.
"use strict";
const readline = require("node:readline");
const { RSocketConnector } = require("rsocket-core");
const { TcpClientTransport } = require("rsocket-tcp-client");
const { WebsocketClientTransport } = require("rsocket-websocket-client");
const { decodeCompositeMetadata, encodeBearerAuthMetadata, encodeCompositeMetadata, encodeSimpleAuthMetadata, WellKnownMimeType } =
  require("rsocket-composite-metadata");
const WebSocket = require("ws");

const COMPOSITE = "message/x.rsocket.composite-metadata.v0";
const MIME = "message/x.rsocket.forwarding";
const MIMES = [MIME, "message/x.rsocket.broker.frame.v0"];
const WELL_KNOWN = { ServiceName: 0x01, RouteId: 0x02, Region: 0x06, ShardKey: 0x1b };

const say = (said) => process.stdout.write(JSON.stringify(said) + "\n");

// Header: major 0, minor 1, six bits of type and ten of flags.
function header(kind, flags) {
  const raw = Buffer.alloc(6);
  raw.writeUInt16BE(0, 0);
  raw.writeUInt16BE(1, 2);
  raw.writeUInt16BE((kind << 10) | flags, 4);
  return raw;
}

// The W bit marks a well-known key, the F bit a further entry.
function tagMap(tags) {
  const names = Object.keys(tags);
  return Buffer.concat(
    names.flatMap((name, at) => {
      const value = Buffer.from(tags[name]);
      const more = at + 1 < names.length ? 0x80 : 0;
      const key =
        name in WELL_KNOWN ? Buffer.from([0x80 | WELL_KNOWN[name]]) : Buffer.from([Buffer.byteLength(name), ...Buffer.from(name)]);
      return [key, Buffer.from([more | value.length]), value];
    })
  );
}

const id = (number) => Buffer.from(number.toString(16).padStart(32, "0"), "hex");

function routeSetup(number, name, tags = {}) {
  return Buffer.concat([header(1, 0), id(number), Buffer.from([Buffer.byteLength(name)]), Buffer.from(name), tagMap(tags)]);
}

const FLAGS = { unicast: 0x80, multicast: 0x40, shard: 0x20 };

// Metadata map first when there is any, else the form with one map.
function address({ tags, hints = {}, routing = "unicast" }) {
  return Buffer.concat([header(5, FLAGS[routing]), id(0xca11), tagMap(hints), tagMap(tags)]);
}

// The metadata of a request: `mime` is what the connection's SETUP announced.
function requestMetadata(mime, wanted) {
  const raw = address(wanted);
  return mime === COMPOSITE ? encodeCompositeMetadata([[MIME, raw], ...(wanted.entries ?? []).map(([m, text]) => [m, Buffer.from(text)])]) : raw;
}

// [[mime type, text], …], the ADDRESS as "ADDRESS" when it is one.
function readMetadata(mime, raw) {
  if (raw === undefined || raw === null) return null;
  const shown = (m, content) => [m, MIMES.includes(m) && content[4] >> 2 === 5 ? "ADDRESS" : content.toString()];
  if (mime !== COMPOSITE) return [shown(mime, raw)];
  return [...decodeCompositeMetadata(raw)].map((entry) => shown(entry.mimeType ?? entry.type, entry.content));
}

function transport(url) {
  if (url.startsWith("ws")) return new WebsocketClientTransport({ url, wsCreator: (to) => new WebSocket(to) });
  const { hostname, port } = new URL(url.replace("tcp:", "http:"));
  return new TcpClientTransport({ connectionOptions: { host: hostname, port: Number(port) } });
}

// What a SETUP carries: a ROUTE_SETUP, if any, and credentials, `["ada", "lovelace"]` or `["token"]`, in composite metadata.
function setupMetadata(mime, setup, credentials) {
  if (mime !== COMPOSITE) return setup;
  const entries = setup ? [[MIME, setup]] : [];
  if (credentials) {
    const encode = credentials.length === 2 ? encodeSimpleAuthMetadata : encodeBearerAuthMetadata;
    entries.push([WellKnownMimeType.MESSAGE_RSOCKET_AUTHENTICATION, encode(...credentials)]);
  }
  return entries.length ? encodeCompositeMetadata(entries) : undefined;
}

async function connect(url, { mime = COMPOSITE, setup, credentials, responder, fragment, resume } = {}) {
  const metadata = setupMetadata(mime, setup, credentials);
  return new RSocketConnector({
    transport: transport(url),
    setup: { payload: { data: Buffer.alloc(0), metadata }, metadataMimeType: mime, dataMimeType: "text/plain", keepAlive: 5000, lifetime: 20000 },
    // It tries again until it gets through; nothing stops it.
    resume: resume ? { tokenGenerator: () => Buffer.from(resume), reconnectFunction: () => new Promise((go) => setTimeout(go, 20)) } : undefined,
    fragmentation: fragment ? { maxOutboundFragmentSize: fragment } : undefined,
    responder,
  }).connect();
}

const told = (error) => ({ code: error.code ?? null, message: error.message });
const text = (payload) => (payload.data ? payload.data.toString() : "");

// Obeys the test's lines with `commands`, and ends the process when there are no more.
function obey(others) {
  const commands = { nothing: () => ({}), ...others }; // its answer stands behind all that was said before
  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", async (line) => {
    const command = JSON.parse(line);
    try {
      say({ id: command.id, ...(await commands[command.do](command)) });
    } catch (error) {
      say({ id: command.id, thrown: String(error.stack ?? error) });
    }
  });
  lines.on("close", () => process.exit(0));
}

module.exports = { COMPOSITE, MIME, address, connect, obey, readMetadata, requestMetadata, routeSetup, say, text, told };
