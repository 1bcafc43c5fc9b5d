// Which entries were handled before, in a table beside a program's own data.

const ID = /^[A-Za-z0-9_.-]{1,64}\/[0-9]{1,16}$/;
const ASYNC = "with SQLite the function given to once() must not be async: its transaction would be over before it is";
const TABLE = /^[A-Za-z_][A-Za-z0-9_.]{0,99}$/;

export class EventStore {
  #database;
  #table;
  /** A connection of `pg` has one transaction at a time: the next call waits for this. */
  #turn = Promise.resolve();

  constructor(database, table = "tipcast_events") {
    if (!TABLE.test(table)) throw new TypeError(`"${table}" is no name of a table`);
    if (typeof database?.prepare === "function") this.#database = new Sqlite(database);
    else if (typeof database?.query === "function") this.#database = new Postgres(database);
    else throw new TypeError("EventStore takes a database of node:sqlite or better-sqlite3, or a Pool or Client of pg");
    this.#table = table;
  }

  /** Makes the table, unless it is there. */
  async create() {
    await this.#database.run(`CREATE TABLE IF NOT EXISTS ${this.#table} (event_id VARCHAR(96) PRIMARY KEY, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)`);
  }

  /** See the types for what it promises. */
  async once(entry, work) {
    // Parameters are spelled in another way by every driver; nothing in an event's id needs one.
    if (!ID.test(entry.event_id)) throw new TypeError(`"${entry.event_id}" is no event's id`);
    const insert = `INSERT INTO ${this.#table} (event_id) VALUES ('${entry.event_id}') ON CONFLICT DO NOTHING`;
    const mine = this.#turn.then(() => this.#database.once(insert, work));
    this.#turn = mine.catch(() => {});
    return mine;
  }
}

/** `node:sqlite` and `better-sqlite3`, whose calls do not wait. */
class Sqlite {
  #database;

  constructor(database) {
    this.#database = database;
  }

  run(sql) {
    this.#database.exec(sql);
  }

  once(insert, work) {
    // Known before it begins: what such a function does after its first wait could not be undone.
    if (work.constructor.name === "AsyncFunction") throw new TypeError(ASYNC);
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      const fresh = Number(this.#database.prepare(insert).run().changes) === 1;
      if (fresh && typeof work(this.#database)?.then === "function") throw new TypeError(ASYNC);
      this.#database.exec(fresh ? "COMMIT" : "ROLLBACK");
      return fresh;
    } catch (error) {
      try {
        this.#database.exec("ROLLBACK");
      } catch {
        // SQLite has undone it already.
      }
      throw error;
    }
  }
}

/** A Pool or a Client of `pg`. */
class Postgres {
  #database;

  constructor(database) {
    this.#database = database;
  }

  async run(sql) {
    await this.#database.query(sql);
  }

  async once(insert, work) {
    // A pool counts its connections; a client is one.
    const isPool = typeof this.#database.totalCount === "number";
    const client = isPool ? await this.#database.connect() : this.#database;
    let broken;
    try {
      await client.query("BEGIN");
      const fresh = (await client.query(insert)).rowCount === 1;
      if (fresh) await work(client);
      await client.query(fresh ? "COMMIT" : "ROLLBACK");
      return fresh;
    } catch (error) {
      await client.query("ROLLBACK").catch((lost) => (broken = lost));
      throw error;
    } finally {
      // A connection that cannot even undo is closed, not used again.
      if (isPool) client.release(broken);
    }
  }
}
