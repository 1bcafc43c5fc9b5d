package tipcast

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
)

// EventStore knows which entries were handled before, in a table beside your own data (SQLite 3.24 or newer, PostgreSQL).
type EventStore struct {
	DB *sql.DB
	// Table is "tipcast_events" when empty.
	Table string
}

var (
	eventID   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}/[0-9]{1,16}$`)
	tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]{0,99}$`)
)

func (s EventStore) table() (string, error) {
	name := s.Table
	if name == "" {
		name = "tipcast_events"
	}
	if !tableName.MatchString(name) {
		return "", fmt.Errorf("tipcast: %q is no name of a table", name)
	}
	return name, nil
}

// Create makes the table, unless it is there.
func (s EventStore) Create(ctx context.Context) error {
	table, err := s.table()
	if err != nil {
		return err
	}
	_, err = s.DB.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+table+
		" (event_id VARCHAR(96) PRIMARY KEY, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)")
	return err
}

// Once calls do, unless the entry was handled before, and answers whether it did. What do does with the transaction and the
// note that the entry is handled are one: both happen, or, where do fails, neither does.
func (s EventStore) Once(ctx context.Context, entry Entry, do func(*sql.Tx) error) (bool, error) {
	table, err := s.table()
	if err != nil {
		return false, err
	}
	// Parameters are spelled in another way by every driver; nothing in an event's id needs one.
	if !eventID.MatchString(entry.EventID) {
		return false, fmt.Errorf("tipcast: %q is no event's id", entry.EventID)
	}
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() {
		if undone := tx.Rollback(); undone != nil && !errors.Is(undone, sql.ErrTxDone) {
			err = errors.Join(err, undone)
		}
	}()
	result, err := tx.ExecContext(ctx, "INSERT INTO "+table+" (event_id) VALUES ('"+entry.EventID+"') ON CONFLICT DO NOTHING")
	if err != nil {
		return false, err
	}
	added, err := result.RowsAffected()
	if err != nil || added == 0 {
		return false, err
	}
	if err := do(tx); err != nil {
		return false, err
	}
	return true, tx.Commit()
}
