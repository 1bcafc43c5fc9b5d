// Package sqltest tests EventStore against a database; it is a module of its own, so that the client has no dependency.
package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	_ "github.com/mattn/go-sqlite3"
	"tipcast"
)

func TestARepeatIsKnownAndMoneyAndMemoryAreOneTransaction(t *testing.T) {
	ctx := context.Background()
	db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "game.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := tipcast.EventStore{DB: db}
	if err := errors.Join(store.Create(ctx), store.Create(ctx)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE accounts (coins INTEGER NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO accounts VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	killed := errors.New("killed")
	credit := func(event string, failure error) (bool, error) {
		return store.Once(ctx, tipcast.Entry{EventID: event}, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET coins = coins + 5")
			return errors.Join(err, failure)
		})
	}
	if did, err := credit("show/17", killed); did || !errors.Is(err, killed) {
		t.Fatal(did, err)
	}
	for n, wanted := range []bool{true, false, false} {
		if did, err := credit("show/17", nil); did != wanted || err != nil {
			t.Fatal(n, did, err)
		}
	}
	if did, err := credit("show/18", nil); !did || err != nil {
		t.Fatal(did, err)
	}
	if _, err := credit("show/1'); DROP TABLE accounts; --", nil); err == nil {
		t.Fatal("taken")
	}
	var coins int
	if err := db.QueryRow("SELECT coins FROM accounts").Scan(&coins); err != nil || coins != 10 {
		t.Fatal(coins, err)
	}
}
