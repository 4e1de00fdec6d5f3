// rsocket-broker-client-js 0.0.32, made for the Java broker: node broker_client.mjs '{"url":…,"name":…,"id":…}'
import { createRequire } from "node:module";
import { firstValueFrom, of, toArray } from "rxjs";
import { BrokerClientId, BrokerRoutingType, RsocketBrokerClient, Tags, WellKnownKey } from "rsocket-broker-client-js";
import WebSocket from "ws";

const { obey, say, told } = createRequire(import.meta.url)("./lib.cjs");
const options = JSON.parse(process.argv[2]);
const id = BrokerClientId.from(options.id);
const client = new RsocketBrokerClient({ webSocketFactory: (url) => new WebSocket(url) });
const rsocket = await client.connect({
  brokerUrl: options.url,
  brokerClientId: id,
  brokerClientName: options.name,
  connectionTags: new Tags(),
  token: options.token,
});

const metadata = ({ service, route, routing = "UNICAST" }) =>
  client.addMetadata(options.token, id, route, new Tags(), new Tags([[WellKnownKey.SERVICE_NAME, service]]), BrokerRoutingType[routing]);
const caught = (error) => ({ error: told(error) });

obey({
  response: (command) =>
    firstValueFrom(client.requestResponse(rsocket, command.data, metadata(command))).then((data) => ({ data }), caught),
  stream: (command) =>
    firstValueFrom(client.requestStream(rsocket, command.data, metadata(command)).pipe(toArray())).then((items) => ({ items }), caught),
  channel: (command) =>
    firstValueFrom(client.requestChannel(rsocket, of(...command.items), metadata(command)).pipe(toArray())).then((items) => ({ items }), caught),
  fnf: (command) =>
    firstValueFrom(client.fireAndForget(rsocket, command.data, metadata(command)), { defaultValue: null }).then(() => ({}), caught),
});
say({ event: "ready" });
