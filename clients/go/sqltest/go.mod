module tipcast.example/go/sqltest

go 1.22

require (
	github.com/mattn/go-sqlite3 v1.14.53
	tipcast.example/go v0.0.0
)

replace tipcast.example/go => ../
