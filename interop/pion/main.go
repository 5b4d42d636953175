// A peer program for pion/sctp on a UDP socket. Like the peer programs in C, it takes the same commands
// and prints the same lines.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const (
	command = "#!interop "
	// Streams opened in advance: pion drops new streams while 16 wait to be accepted.
	streams    = 512
	maxMessage = 4 << 20
)

type peer struct {
	association *sctp.Association
	lock        sync.Mutex
	open        map[uint16]*sctp.Stream
	sink        bool
	resume      time.Time
	bytes       uint64
	hash        interface {
		Write([]byte) (int, error)
		Sum64() uint64
	}
	sources sync.WaitGroup
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "pion:", err)
		os.Exit(1)
	}
}

// Generates the bytes of message index of a sequence; the other side generates the same.
func pattern(length int, seed, index uint64) []byte {
	state := (seed*0x9e3779b97f4a7c15+index)*0xbf58476d1ce4e5b9 | 1
	bytes := make([]byte, length)
	for i := range bytes {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		bytes[i] = byte(state >> 24)
	}
	return bytes
}

// stream returns the handle of a stream and lets it be read; odd streams are unordered.
func (p *peer) stream(id uint16) *sctp.Stream {
	p.lock.Lock()
	defer p.lock.Unlock()
	if stream, ok := p.open[id]; ok {
		return stream
	}
	stream, err := p.association.OpenStream(id, sctp.PayloadTypeWebRTCBinary)
	if err != nil {
		return nil // the other side opened it first, and it will be accepted
	}
	p.keep(id, stream)
	return stream
}

func (p *peer) keep(id uint16, stream *sctp.Stream) {
	stream.SetReliabilityParams(id%2 == 1, sctp.ReliabilityTypeReliable, 0)
	p.open[id] = stream
	go p.read(stream)
}

func (p *peer) read(stream *sctp.Stream) {
	buffer := make([]byte, 64<<10)
	for {
		n, identifier, err := stream.ReadSCTP(buffer)
		if err != nil && n > len(buffer) {
			buffer = make([]byte, n)
			continue
		}
		if err != nil && strings.Contains(err.Error(), "short buffer") && len(buffer) < maxMessage {
			buffer = make([]byte, maxMessage)
			continue
		}
		if err != nil {
			return
		}
		p.lock.Lock()
		resume := p.resume
		p.lock.Unlock()
		time.Sleep(time.Until(resume))
		p.take(stream, buffer[:n], identifier)
	}
}

func (p *peer) take(stream *sctp.Stream, message []byte, identifier sctp.PayloadProtocolIdentifier) {
	if text, found := strings.CutPrefix(string(message[:min(len(message), 64)]), command); found {
		p.obey(text)
		return
	}
	p.lock.Lock()
	p.bytes += uint64(len(message))
	_, _ = p.hash.Write(message)
	sink := p.sink
	p.lock.Unlock()
	if !sink {
		// Fails only once the association has ended, which the main loop reports.
		_, _ = stream.WriteSCTP(append([]byte(nil), message...), identifier)
	}
}

func (p *peer) obey(text string) {
	var count, size, over, seed uint64
	var milliseconds int64
	switch {
	case strings.HasPrefix(text, "source "):
		_, err := fmt.Sscanf(text, "source %d %d %d %d", &count, &size, &over, &seed)
		fail(err)
		p.sources.Add(1)
		go func() {
			defer p.sources.Done()
			for index := uint64(0); index < count; index++ {
				stream := p.stream(uint16(index % over))
				message := pattern(int(size), seed, index)
				if stream == nil {
					fail(fmt.Errorf("no stream %d", index%over))
				}
				_, err := stream.WriteSCTP(message, sctp.PayloadProtocolIdentifier(1000+index))
				fail(err)
			}
		}()
	case strings.HasPrefix(text, "pause "):
		_, err := fmt.Sscanf(text, "pause %d", &milliseconds)
		fail(err)
		p.lock.Lock()
		p.resume = time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
		p.lock.Unlock()
	case text == "sink":
		p.lock.Lock()
		p.sink = true
		p.lock.Unlock()
	case text == "shutdown":
		go func() {
			p.sources.Wait()
			for p.association.BufferedAmount() > 0 {
				time.Sleep(time.Millisecond)
			}
			_ = p.association.Shutdown(context.Background())
		}()
	case text == "abort":
		go p.association.Abort("interop")
	}
}

func main() {
	role := flag.String("role", "listen", "listen or connect")
	local := flag.String("local", "", "address and UDP port of this side")
	remote := flag.String("remote", "", "address and UDP port of the other side")
	window := flag.Uint("window", 1<<20, "receive window in bytes")
	flag.Parse()
	from, err := net.ResolveUDPAddr("udp", *local)
	fail(err)
	to, err := net.ResolveUDPAddr("udp", *remote)
	fail(err)
	socket, err := net.DialUDP("udp", from, to)
	fail(err)
	fail(socket.SetReadBuffer(4 << 20))
	config := sctp.Config{
		NetConn:              socket,
		MaxReceiveBufferSize: uint32(*window),
		MaxMessageSize:       maxMessage,
		LoggerFactory:        logging.NewDefaultLoggerFactory(),
		BlockWrite:           true,
		MTU:                  1400,
		RTOMax:               3000,
	}
	p := &peer{open: map[uint16]*sctp.Stream{}, hash: fnv.New64a()}
	if *role == "listen" {
		fmt.Println("ready")
		p.association, err = sctp.Server(config)
	} else {
		p.association, err = sctp.Client(config)
	}
	fail(err)
	fmt.Println("up")
	for id := uint16(0); id < streams; id++ {
		p.stream(id)
	}
	for {
		stream, err := p.association.AcceptStream()
		if err != nil {
			break
		}
		p.lock.Lock()
		if _, known := p.open[stream.StreamIdentifier()]; !known {
			p.keep(stream.StreamIdentifier(), stream)
		}
		p.lock.Unlock()
	}
	time.Sleep(100 * time.Millisecond) // let readers finish
	p.lock.Lock()
	fmt.Printf("end bytes=%d hash=%016x how=shutdown\n", p.bytes, p.hash.Sum64())
	p.lock.Unlock()
}
