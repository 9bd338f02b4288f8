// Checks Envoy settings in JSON against their protobuf messages: every field exists in its message, is not
// deprecated, and has a value of its type; of mutually exclusive fields only one is set.
//   NODE_PATH=.../node_modules node envoy.js FILE.json
//
// Then every message gets an additional field, and every value another type: each of these must be rejected.
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const protobuf = require('protobufjs');

const deps = path.join(path.dirname(require.resolve('@grpc/grpc-js-xds/package.json')), 'deps');
const roots = ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((name) => path.join(deps, name));
const root = new protobuf.Root();
// Annotations extend the descriptor messages, which protobufjs does not include.
protobuf.common('descriptor', require('protobufjs/google/protobuf/descriptor.json').nested.google.nested.protobuf.nested);
root.resolvePath = (from, to) => {
  if (path.isAbsolute(to)) return to;
  const at = roots.map((folder) => path.join(folder, to)).find((file) => fs.existsSync(file));
  return at || (protobuf.common.get(to) ? to : null); // a file in none of the folders defines only annotations
};

// Returns the type of that name, from the files of its package.
function message(name) {
  try {
    return root.lookupType(name);
  } catch {
    const folder = path.join(roots[0], ...name.split('.').slice(0, -1));
    assert.ok(fs.existsSync(folder), `there is no ${name}`);
    const files = fs.readdirSync(folder).filter((file) => file.endsWith('.proto'));
    root.loadSync(files.map((file) => path.join(folder, file)), { keepCase: true });
    return root.lookupType(name);
  }
}

const numbers = ['double', 'float', 'int32', 'uint32', 'sint32', 'fixed32', 'sfixed32', 'int64', 'uint64', 'sint64', 'fixed64', 'sfixed64'];
const wrapped = { DoubleValue: 'double', FloatValue: 'float', Int64Value: 'int64', UInt64Value: 'uint64', Int32Value: 'int32', UInt32Value: 'uint32', BoolValue: 'bool', StringValue: 'string' };
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

function checkScalar(type, value, at) {
  const wanted = numbers.includes(type) ? 'number' : type === 'bool' ? 'boolean' : 'string';
  assert.equal(typeof value, wanted, `${at}: no ${type}`);
  if (wanted === 'number' && !['double', 'float'].includes(type)) assert.ok(Number.isInteger(value), `${at}: no whole number`);
}

function checkValue(field, value, at) {
  field.resolve();
  const type = field.resolvedType;
  if (type === null) return checkScalar(field.type, value, at);
  if (type instanceof protobuf.Enum) return assert.ok(Object.hasOwn(type.values, value), `${at}: ${value} is none of ${Object.keys(type.values)}`);
  return checkMessage(type, value, at);
}

function checkMessage(type, value, at) {
  const known = type.fullName.match(/^\.google\.protobuf\.(\w+)$/);
  if (known && known[1] in wrapped) return checkScalar(wrapped[known[1]], value, at);
  if (known && known[1] === 'Duration') return assert.match(value, /^[0-9]+(\.[0-9]{1,9})?s$/, `${at}: no time`);
  assert.ok(isObject(value), `${at}: no ${type.name}`);
  if (known && known[1] === 'Any') {
    assert.match(String(value['@type']), /^type\.googleapis\.com\/[\w.]+$/, `${at}: no type`);
    const { '@type': name, ...fields } = value;
    return checkMessage(message(name.split('/')[1]), fields, at);
  }
  const chosen = new Set();
  for (const [name, inside] of Object.entries(value)) {
    const field = type.fields[name];
    assert.ok(field, `${at}: ${type.name} has no field ${name}`);
    assert.ok(!(field.options && field.options.deprecated), `${at}.${name}: is deprecated`);
    if (field.partOf) {
      assert.ok(!chosen.has(field.partOf.name), `${at}: two of ${field.partOf.name}`);
      chosen.add(field.partOf.name);
    }
    if (field.repeated) {
      assert.ok(Array.isArray(inside), `${at}.${name}: no list`);
      inside.forEach((one, i) => checkValue(field, one, `${at}.${name}[${i}]`));
    } else if (field.map) {
      assert.ok(isObject(inside), `${at}.${name}: no map`);
      for (const [key, one] of Object.entries(inside)) checkValue(field, one, `${at}.${name}.${key}`);
    } else {
      checkValue(field, inside, `${at}.${name}`);
    }
  }
}

function* places(value, at = []) {
  yield at;
  if (typeof value === 'object') for (const key of Object.keys(value)) yield* places(value[key], [...at, key]);
}

function wrong(whole, at, change) {
  const copy = structuredClone(whole);
  change(at.slice(0, -1).reduce((value, key) => value[key], copy), at[at.length - 1]);
  return copy;
}

const bootstrap = message('envoy.config.bootstrap.v3.Bootstrap');
const settings = JSON.parse(fs.readFileSync(process.argv[2]));
checkMessage(bootstrap, settings, 'bootstrap');

let tried = 0;
for (const at of places({ settings })) {
  if (at.length === 0) continue;
  const forms = [wrong({ settings }, at, (parent, key) => { parent[key] = Array.isArray(parent[key]) ? 'x' : [1]; })];
  const value = at.reduce((inside, key) => inside[key], { settings });
  if (isObject(value)) forms.push(wrong({ settings }, at, (parent, key) => { parent[key].unknown = 1; }));
  for (const form of forms) {
    tried++;
    assert.throws(() => checkMessage(bootstrap, form.settings, 'bootstrap'), assert.AssertionError, `accepted, although it is invalid at ${at}`);
  }
}
console.log(`envoy.yaml is valid; ${tried} invalid variants are rejected`);
