module anabranch/interop/pion

go 1.24

require (
	github.com/pion/logging v0.2.4
	github.com/pion/sctp v1.9.0
)

require (
	github.com/pion/randutil v0.1.0 // indirect
	github.com/pion/transport/v3 v3.1.1 // indirect
)
