module tipcast/sqltest

go 1.22

require (
	github.com/mattn/go-sqlite3 v1.14.53
	tipcast v0.0.0
)

replace tipcast => ../
