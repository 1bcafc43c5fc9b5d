module tipcast

go 1.22
