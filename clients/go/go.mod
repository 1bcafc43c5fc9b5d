module tipcast.example/go

go 1.22
