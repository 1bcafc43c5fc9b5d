// Package sqltest tests EventStore against a database; it is a module of its own, so that the client has no dependency.
package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
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

func TestADatabaseThatGoesAwayCostsNoEntryAndCountsNoneTwice(t *testing.T) {
	at := os.Getenv("TIPCAST_POSTGRES")
	if at == "" {
		t.Skip("there is no PostgreSQL")
	}
	ctx := context.Background()
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := tipcast.EventStore{DB: db, Table: "go_events"}
	_, made := db.Exec("CREATE TABLE go_accounts (coins INTEGER NOT NULL)")
	_, filled := db.Exec("INSERT INTO go_accounts VALUES (0)")
	if err := errors.Join(store.Create(ctx), store.Create(ctx), made, filled); err != nil {
		t.Fatal(err)
	}
	credit := func(n int, ends bool) (bool, error) {
		return store.Once(ctx, tipcast.Entry{EventID: fmt.Sprintf("show/%d", n)}, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE go_accounts SET coins = coins + 5")
			if ends {
				_, err = tx.ExecContext(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			}
			return err
		})
	}
	// Two at once have each entry once between them.
	var both sync.WaitGroup
	for range 2 {
		both.Add(1)
		go func() {
			defer both.Done()
			for n := range 50 {
				if _, err := credit(n, false); err != nil {
					t.Error(n, err)
				}
			}
		}()
	}
	both.Wait()
	// Killed inside the transaction: nothing of it is there, and the next call has a connection.
	for range 2 {
		if did, err := credit(100, true); did || err == nil {
			t.Fatal(did, err)
		}
	}
	for n, wanted := range []bool{true, false} {
		if did, err := credit(100, false); did != wanted || err != nil {
			t.Fatal(n, did, err)
		}
	}
	var coins int
	if err := db.QueryRow("SELECT coins FROM go_accounts").Scan(&coins); err != nil || coins != 51*5 {
		t.Fatal(coins, err)
	}
}
