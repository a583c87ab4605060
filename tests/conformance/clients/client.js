// node-zookeeper-client; see dialogue.py for what it does and says.
'use strict';
const zookeeper = require('node-zookeeper-client');

const [, , hosts, path] = process.argv;
const client = zookeeper.createClient(hosts, { sessionTimeout: 30000, spinDelay: 50, retries: 0 });
let begun = false;
const say = (...what) => process.stdout.write(what.join(' ') + '\n');

function call(method, ...given) {
  return new Promise((resolve, reject) => {
    client[method](...given, (error, ...results) => (error ? reject(error) : resolve(results)));
  });
}

async function read() {
  const [data] = await call('getData', path, (event) => changed(event).catch(fail));
  return data.toString();
}

async function changed(event) {
  if (event.getType() !== zookeeper.Event.NODE_DATA_CHANGED) return;
  const value = await read();
  say('changed', event.getPath());
  if (value === 'three') {
    const [stat] = await call('exists', path + '/ephemeral');
    say('read three, the ephemeral is', stat ? 'there' : 'gone');
  }
}

async function begin() {
  await call('create', path, Buffer.from('one'));
  say('read', await read());
  await call('setData', path, Buffer.from('two'), 0);
  say('created', (await call('create', path + '/ephemeral', zookeeper.CreateMode.EPHEMERAL))[0]);
  say('created', (await call('create', path + '/s-', zookeeper.CreateMode.PERSISTENT_SEQUENTIAL))[0]);
  await new Promise((resolve) => {
    client.transaction().remove(path + '/ephemeral', -1).check(path, 7).commit((error, results) => {
      if (error && error.getCode() === zookeeper.Exception.BAD_VERSION) say('refused', results.length);
      resolve();
    });
  });
  await read();
  say('waiting');
}

function fail(error) {
  say('failed', error.stack);
  process.exit(1);
}

client.on('state', (state) => {
  if (state === zookeeper.State.SYNC_CONNECTED) {
    say('connected 0x' + client.getSessionId().toString('hex').replace(/^0+/, ''));
    if (!begun) {
      begun = true;
      begin().catch(fail);
    }
  } else if (state === zookeeper.State.DISCONNECTED) {
    say('disconnected');
  } else if (state === zookeeper.State.EXPIRED) {
    say('expired');
    process.exit(0);
  }
});
client.connect();
