// Command credit is a game's backend that credits what the ledger says, for benches/ledger_soak.
package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"tipcast"
)

const tables = `
CREATE TABLE IF NOT EXISTS givers (gift TEXT PRIMARY KEY, user TEXT);
CREATE TABLE IF NOT EXISTS accounts (user TEXT, currency TEXT, amount INTEGER, PRIMARY KEY (user, currency));
CREATE TABLE IF NOT EXISTS types (type TEXT PRIMARY KEY, n INTEGER);`

func main() {
	ctx := context.Background()
	db, err := sql.Open("sqlite3", os.Getenv("DATABASE")+"?_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	store := tipcast.EventStore{DB: db}
	if err := store.Create(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec(tables); err != nil {
		log.Fatal(err)
	}
	// What is done about an entry, once, in the transaction that knows it.
	once := func(do func(*sql.Tx, tipcast.Entry) error) tipcast.Handler {
		return func(ctx context.Context, entry tipcast.Entry) error {
			_, err := store.Once(ctx, entry, func(tx *sql.Tx) error {
				_, err := tx.Exec("INSERT INTO types VALUES (?, 1) ON CONFLICT (type) DO UPDATE SET n = n + 1", entry.Type)
				if err != nil {
					return err
				}
				return do(tx, entry)
			})
			return err
		}
	}
	handlers := tipcast.Handlers{"*": once(func(*sql.Tx, tipcast.Entry) error { return nil })}
	for _, kind := range []string{
		"gift.accepted", "gift.merged", "gift.suppressed", "gift.denied", "drop.sold", "gift.retracted", "gift.refunded",
	} {
		handlers[kind] = once(credit)
	}
	group := &tipcast.Group{
		Client: &tipcast.Client{URL: os.Getenv("TIPCAST_URL")}, Feed: "soak", Group: os.Getenv("GROUP"), Lease: 5 * time.Second,
	}
	log.Fatal(group.ConsumeTypes(ctx, handlers))
}

func credit(tx *sql.Tx, entry tipcast.Entry) error {
	name := entry.Drop + "/" + entry.Gift.ID
	user := entry.Gift.User.ID
	if user != "" {
		if _, err := tx.Exec("INSERT INTO givers VALUES (?, ?) ON CONFLICT DO NOTHING", name, user); err != nil {
			return err
		}
	} else if err := tx.QueryRow("SELECT user FROM givers WHERE gift = ?", name).Scan(&user); err != nil {
		return err
	}
	if entry.Delta.Value == nil {
		return nil
	}
	_, err := tx.Exec("INSERT INTO accounts VALUES (?, ?, ?) ON CONFLICT (user, currency) DO UPDATE SET amount = amount + excluded.amount",
		user, entry.Delta.Value.Currency, entry.Delta.Value.Amount)
	return err
}
