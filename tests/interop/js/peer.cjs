// rsocket-js 1.0.0-alpha.3 as a caller and as a service: node peer.cjs '{"url":…,"name":…,"number":…,"tags":…,"mime":…,"fragment":…,"resume":…,"credentials":…}'
// (`resume`: the token of a session that survives broken sockets. `credentials`: `["ada","lovelace"]` or `["token"]`.)
//
// As a service it does what the request's data says:  fail · hang · count N · halves · anything else: an echo.
// As a caller it obeys the test's commands; a stream or channel has a handle, and what it got stays readable.
"use strict";
const { COMPOSITE, connect, obey, readMetadata, requestMetadata, routeSetup, say, text, told } = require("./lib.cjs");

const options = JSON.parse(process.argv[2]);
const mime = options.mime ?? COMPOSITE;
const name = options.name ?? "caller";

const ignore = () => {};
const heard = (model, payload) => say({ event: model, data: text(payload).slice(0, 100), bytes: payload.data?.length ?? 0, metadata: readMetadata(mime, payload.metadata) });
const item = (data) => ({ data: Buffer.from(data) });

// Items 1..count, never more than was asked for; then complete, or an error for `failing`.
function counted(count, failing, credit, to) {
  let sent = 0;
  let open = true;
  const send = (n) => {
    say({ event: "asked", n });
    while (open && n-- > 0) {
      sent += 1;
      to.onNext(item(`${name}:${sent}`), sent === count && !failing);
      if (sent === count) {
        open = false;
        if (failing) to.onError(new Error("broke in the middle"));
      }
    }
  };
  setImmediate(() => send(credit)); // rsocket-js has not registered the stream before the handler returns
  return {
    request: send,
    cancel: () => {
      open = false;
      say({ event: "cancelled", sent });
    },
    onExtension: ignore,
  };
}

const responder = {
  fireAndForget(payload, to) {
    heard("fnf", payload);
    to.onComplete();
    return { cancel: ignore };
  },
  requestResponse(payload, to) {
    heard("rr", payload);
    const data = text(payload);
    if (data === "fail") setImmediate(() => to.onError(new Error("asked to fail")));
    else if (data !== "hang") setImmediate(() => to.onNext({ data: Buffer.from(`${name}:${data}`), metadata: Buffer.from("answered") }, true));
    return { cancel: () => say({ event: "cancelled", data }), onExtension: ignore };
  },
  requestStream(payload, n, to) {
    heard("stream", payload);
    const [what, count] = text(payload).split(" ");
    return counted(Number(count), what === "break", n, to);
  },
  requestChannel(payload, n, isCompleted, to) {
    heard("channel", payload);
    if (text(payload) === "halves") {
      // Ends its own half at once and goes on listening.
      setImmediate(() => {
        to.onNext(item(`${name}:only`), true);
        to.request(100);
      });
      return {
        onNext: (next, done) => say({ event: "item", data: text(next), done }),
        onComplete: () => say({ event: "other half ended" }),
        onError: (error) => say({ event: "channel error", ...told(error) }),
        request: (more) => say({ event: "asked", n: more }),
        cancel: () => say({ event: "cancelled" }),
        onExtension: ignore,
      };
    }
    // An echo with one item on the way, that asks for the next when it has sent the last.
    let credit = n;
    const waiting = [payload];
    let ended = isCompleted;
    const go = () => {
      while (credit > 0 && waiting.length) {
        credit -= 1;
        to.onNext(item(`${name}:${text(waiting.shift())}`), false);
        if (!ended) to.request(1);
      }
      if (ended && !waiting.length) to.onComplete();
    };
    setImmediate(go);
    return {
      onNext: (next, done) => {
        waiting.push(next);
        ended = ended || done;
        go();
      },
      onComplete: () => {
        ended = true;
        go();
      },
      onError: (error) => say({ event: "channel error", ...told(error) }),
      request: (more) => {
        say({ event: "asked", n: more });
        credit += more;
        go();
      },
      cancel: () => say({ event: "cancelled" }),
      onExtension: ignore,
    };
  },
};

// What a stream or channel got, and waiting for it.
class Inbox {
  constructor() {
    this.got = { items: [], completed: false, error: null, asked: 0, cancelled: false };
    this.waiting = [];
  }
  changed() {
    this.waiting = this.waiting.filter((each) => !each());
  }
  wait(isDone) {
    return new Promise((resolve) => {
      this.waiting.push(() => isDone(this.got) && (resolve(), true));
      this.changed();
    });
  }
  receiver() {
    const change = (what) => (...args) => {
      what(...args);
      this.changed();
    };
    return {
      onNext: change((payload, done) => {
        this.got.items.push(text(payload));
        this.got.completed = this.got.completed || done;
      }),
      onComplete: change(() => (this.got.completed = true)),
      onError: change((error) => (this.got.error = told(error))),
      request: change((n) => (this.got.asked += n)),
      cancel: change(() => (this.got.cancelled = true)),
      onExtension: ignore,
    };
  }
}

async function main() {
  const setup = options.number ? routeSetup(options.number, name, options.tags) : undefined;
  const { credentials, fragment, resume } = options;
  const rsocket = await connect(options.url, { mime, setup, credentials, responder, fragment, resume });
  rsocket.onClose((error) => say({ event: "closed", error: error ? told(error) : null }));

  const handles = new Map();
  const asked = new Map(); // cancellable request/responses by handle
  const payload = (command) => ({
    data: Buffer.from(command.fill ? "x".repeat(command.fill) : (command.data ?? "")),
    metadata: requestMetadata(mime, command),
  });
  const open = (subject, inbox) => {
    handles.set(handles.size + 1, { subject, inbox });
    return { handle: handles.size };
  };

  const response = (command, keep) =>
    new Promise((resolve) => {
      let answered = false;
      const end = (said) => {
        if (!answered) resolve(said);
        answered = true;
      };
      const request = rsocket.requestResponse(payload(command), {
        onNext: (got) => end({ data: text(got).slice(0, 100), bytes: got.data?.length ?? 0, metadata: got.metadata?.toString() ?? null }),
        onComplete: () => end({ data: null }),
        onError: (error) => end({ error: told(error) }),
        onExtension: ignore,
      });
      if (keep) asked.set(keep, request);
    });

  const commands = {
    response: (command) => response(command),
    fnf: (command) => new Promise((resolve) => rsocket.fireAndForget(payload(command), { onComplete: () => resolve({}), onError: (error) => resolve({ error: told(error) }) })),
    openResponse(command) {
      response(command, command.keep);
      return {};
    },
    cancelResponse({ keep }) {
      asked.get(keep).cancel();
      return {};
    },
    stream(command) {
      const inbox = new Inbox();
      return open(rsocket.requestStream(payload(command), command.n, inbox.receiver()), inbox);
    },
    channel(command) {
      const inbox = new Inbox();
      return open(rsocket.requestChannel(payload(command), command.n, command.complete ?? false, inbox.receiver()), inbox);
    },
    // Until so many items came, so many were asked for, or it ended.
    async wait({ handle, items = Infinity, asked: credit = Infinity }) {
      const { inbox } = handles.get(handle);
      await inbox.wait((got) => got.items.length >= items || got.asked >= credit || got.completed || got.error !== null);
      return inbox.got;
    },
    state: ({ handle }) => handles.get(handle).inbox.got,
    request({ handle, n }) {
      handles.get(handle).subject.request(n);
      return {};
    },
    cancel({ handle }) {
      handles.get(handle).subject.cancel();
      return {};
    },
    send({ handle, data, complete = false }) {
      handles.get(handle).subject.onNext(item(data), complete);
      return {};
    },
    complete({ handle }) {
      handles.get(handle).subject.onComplete();
      return {};
    },
    fail({ handle, message }) {
      handles.get(handle).subject.onError(new Error(message));
      return {};
    },
    close() {
      rsocket.close();
      return {};
    },
  };
  obey(commands);
  say({ event: "ready" });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
