// usage: node perfetto.cjs ENGINE_DIR TRACE SQL...
//
// Runs queries in Perfetto's own trace processor: the WebAssembly build that its viewer uses, in
// ENGINE_DIR. It believes to be the viewer's worker. Prints one JSON array of rows per query.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [dir, trace, ...queries] = process.argv.slice(2);

// What the engine expects of a browser's worker.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.importScripts = () => {};
globalThis.location = { href: 'http://engine/engine_bundle.js' };
process.type = 'renderer';
const asset = (url) => fs.readFileSync(path.join(dir, path.basename(String(url))));
globalThis.XMLHttpRequest = class {
    open(_method, url) {
        this.url = url;
    }
    send() {
        this.response = asset(this.url);
    }
};
globalThis.fetch = async (url) =>
    new Response(asset(url), { headers: { 'Content-Type': 'application/wasm' } });
console.log = console.warn = () => {};

// Protocol buffers, as much as is needed. Requests.
function varint(n) {
    const out = [];
    for (n = BigInt(n); n >= 128n; n >>= 7n) out.push(Number(n & 127n) | 128);
    return Buffer.from([...out, Number(n)]);
}
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint((field << 3) | 2), varint(b.length), b]);

// Answers: a list of [field, value]; a value is a bigint or a buffer.
function fields(buffer) {
    const out = [];
    let at = 0;
    const next = () => {
        let n = 0n, shift = 0n, byte;
        do {
            byte = buffer[at++];
            n |= BigInt(byte & 127) << shift;
            shift += 7n;
        } while (byte & 128);
        return n;
    };
    while (at < buffer.length) {
        const key = Number(next());
        if ((key & 7) === 0) out.push([key >> 3, next()]);
        else if ((key & 7) === 2) {
            const length = Number(next());
            out.push([key >> 3, buffer.subarray(at, (at += length))]);
        } else if ((key & 7) === 1) out.push([key >> 3, buffer.subarray(at, (at += 8))]);
        else throw new Error('wire type ' + (key & 7));
    }
    return out;
}
function packed(buffer) {
    const out = [];
    for (let at = 0; at < buffer.length;) {
        let n = 0n, shift = 0n, byte;
        do {
            byte = buffer[at++];
            n |= BigInt(byte & 127) << shift;
            shift += 7n;
        } while (byte & 128);
        out.push(Number(BigInt.asIntN(64, n)));
    }
    return out;
}
const all = (list, field) => list.filter(([f]) => f === field).map(([, v]) => v);

// The rows of a query's answers, each cell of its own type.
function rows(answers) {
    const names = [];
    const cells = [];
    for (const answer of answers) {
        const list = fields(answer);
        for (const error of all(list, 2)) throw new Error(String(error));
        names.push(...all(list, 1).map(String));
        for (const batch of all(list, 3)) {
            const part = fields(batch);
            const types = all(part, 1).flatMap(packed);
            const numbers = all(part, 2).flatMap(packed);
            const floats = all(part, 3);
            const texts = all(part, 5).flatMap((b) => String(b).split('\0'));
            let float = 0;
            for (const type of types) {
                if (type === 1) cells.push(null);
                else if (type === 2) cells.push(numbers.shift());
                else if (type === 3) cells.push(floats[0].readDoubleLE(8 * float++));
                else if (type === 4) cells.push(texts.shift());
                else throw new Error('cell type ' + type);
            }
        }
    }
    const out = [];
    for (let at = 0; at < cells.length; at += names.length) {
        out.push(Object.fromEntries(names.map((name, i) => [name, cells[at + i]])));
    }
    return out;
}

// Conversation with the engine: a stream of messages each way.
let seq = 0;
let waiting = [];
const port = {
    postMessage(data) {
        for (const [, message] of fields(Buffer.from(data))) {
            const list = fields(message);
            for (const error of all(list, 5)) throw new Error(String(error));
            waiting.push(list);
        }
    },
};
function ask(method, ...args) {
    waiting = [];
    const message = Buffer.concat([number(1, seq++), number(2, method), ...args]);
    port.onmessage({ data: new Uint8Array(bytes(1, message)) });
    return waiting;
}

async function main() {
    vm.runInThisContext(fs.readFileSync(path.join(dir, 'engine_bundle.js'), 'utf8'));
    globalThis.onmessage({ data: port });
    const deadline = Date.now() + 30000;
    for (;;) {
        await new Promise((done) => setImmediate(done));
        try {
            ask(3, bytes(103, bytes(1, Buffer.from('select 1 as one'))));
            if (waiting.length > 0) break;
        } catch (error) {
            if (Date.now() > deadline) throw error;
        }
    }
    ask(1, bytes(101, fs.readFileSync(trace)));
    ask(2);
    for (const query of queries) {
        const answers = ask(3, bytes(103, bytes(1, Buffer.from(query))));
        const lists = answers.flatMap((list) => all(list, 203));
        process.stdout.write(JSON.stringify(rows(lists)) + '\n');
    }
}

main().then(() => process.exit(0), (error) => {
    process.stderr.write(String(error && error.stack) + '\n');
    process.exit(1);
});
