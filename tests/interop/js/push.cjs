// rsocket-js 0.0.27, the only one with METADATA_PUSH: node push.cjs '{"url":…,"name":…,"number":…}'
"use strict";
const { RSocketClient, BufferEncoders, encodeCompositeMetadata } = require("rsocket-core-0");
const RSocketTcpClient = require("rsocket-tcp-client-0").default;
const { Single } = require("rsocket-flowable");
const { COMPOSITE, MIME, obey, readMetadata, requestMetadata, routeSetup, say } = require("./lib.cjs");

const options = JSON.parse(process.argv[2]);
const { hostname, port } = new URL(options.url.replace("tcp:", "http:"));
const setup = options.number ? encodeCompositeMetadata([[MIME, routeSetup(options.number, options.name, options.tags)]]) : undefined;

const client = new RSocketClient({
  setup: {
    keepAlive: 5000,
    lifetime: 20000,
    dataMimeType: "text/plain",
    metadataMimeType: COMPOSITE,
    payload: { data: Buffer.alloc(0), metadata: setup },
  },
  responder: {
    metadataPush(payload) {
      say({ event: "push", metadata: readMetadata(COMPOSITE, payload.metadata) });
      return Single.of(undefined);
    },
    requestResponse: (payload) => Single.of({ data: Buffer.from(`${options.name}:${payload.data}`) }),
  },
  transport: new RSocketTcpClient({ host: hostname, port: Number(port) }, BufferEncoders),
});

client.connect().subscribe({
  onComplete(rsocket) {
    const single = (wanted) => new Promise((onComplete, onError) => wanted.subscribe({ onComplete, onError, onSubscribe: () => {} }));
    obey({
      async push(command) {
        await single(rsocket.metadataPush({ metadata: requestMetadata(COMPOSITE, command) }));
        return {};
      },
      async announce({ number, name, tags }) {
        await single(rsocket.metadataPush({ metadata: encodeCompositeMetadata([[MIME, routeSetup(number, name, tags)]]) }));
        return {};
      },
      async response(command) {
        const got = await single(rsocket.requestResponse({ data: Buffer.from(command.data), metadata: requestMetadata(COMPOSITE, command) }));
        return { data: got.data.toString() };
      },
    });
    say({ event: "ready" });
  },
  onError(error) {
    console.error(error);
    process.exit(1);
  },
});
