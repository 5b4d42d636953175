// A peer program for pion/sctp on a UDP socket. Like the peer programs in C, it takes the same commands
// and prints the same lines. It is built with two releases of pion: the current one, which go.mod has, and an
// old one of go-1.9.mod. The current one interleaves messages if the other side wants that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
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
	// Of each stream, closed when its last reader has returned. The next one waits for it.
	readers map[uint16]chan struct{}
	sink    bool
	report  bool
	resume  time.Time
	bytes   uint64
	hash    interface {
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
	before, done := p.readers[id], make(chan struct{})
	p.open[id], p.readers[id] = stream, done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		p.read(stream)
	}()
}

// reset forgets a stream that the other side has reset, so that its next message opens it again. The stream is
// closed, as WebRTC requires: a new one of this number begins with the sequence number 0.
func (p *peer) reset(stream *sctp.Stream) {
	_ = stream.Close() // fails if the association has ended
	p.lock.Lock()
	defer p.lock.Unlock()
	id := stream.StreamIdentifier()
	if p.open[id] == stream {
		delete(p.open, id)
	}
	fmt.Println("reset incoming", id)
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
		if errors.Is(err, io.EOF) {
			p.reset(stream)
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
	if p.report {
		hash := fnv.New64a()
		_, _ = hash.Write(message)
		fmt.Printf("message %d %d %016x\n", stream.StreamIdentifier(), len(message), hash.Sum64())
	}
	p.lock.Unlock()
	if !sink {
		// Fails only once the association has ended, which the main loop reports.
		_, _ = stream.WriteSCTP(append([]byte(nil), message...), identifier)
	}
}

// source sends messages of its own; of tells the stream and the length of each.
func (p *peer) source(count, seed uint64, of func(index uint64) (uint16, int)) {
	p.sources.Add(1)
	go func() {
		defer p.sources.Done()
		for index := uint64(0); index < count; index++ {
			id, size := of(index)
			stream := p.stream(id)
			if stream == nil {
				fail(fmt.Errorf("no stream %d", id))
			}
			message := pattern(size, seed, index)
			_, err := stream.WriteSCTP(message, sctp.PayloadProtocolIdentifier(1000+index))
			fail(err)
		}
	}()
}

func (p *peer) obey(text string) {
	var count, size, over, seed uint64
	var long, short int
	var milliseconds int64
	var id uint16
	switch {
	case strings.HasPrefix(text, "source "):
		_, err := fmt.Sscanf(text, "source %d %d %d %d", &count, &size, &over, &seed)
		fail(err)
		p.source(count, seed, func(index uint64) (uint16, int) { return uint16(index % over), int(size) })
	case strings.HasPrefix(text, "mixed "):
		_, err := fmt.Sscanf(text, "mixed %d %d %d %d", &long, &short, &count, &seed)
		fail(err)
		p.source(1+count, seed, func(index uint64) (uint16, int) {
			if index == 0 {
				return 0, long
			}
			return uint16(2 + index%2), short
		})
	case strings.HasPrefix(text, "reset "):
		_, err := fmt.Sscanf(text, "reset %d", &id)
		fail(err)
		go func() {
			p.sources.Wait()
			fail(p.stream(id).Close())
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
	case text == "report":
		p.lock.Lock()
		p.sink, p.report = true, true
		fmt.Println("reporting")
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
	interleave := flag.Bool("interleave", false, "queue several messages at a time")
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
		// A write that blocks lets no other message into the queue.
		BlockWrite: !*interleave,
		MTU:                  1400,
		RTOMax:               3000,
	}
	p := &peer{
		open:    map[uint16]*sctp.Stream{},
		readers: map[uint16]chan struct{}{},
		hash:    fnv.New64a(),
	}
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
		if p.open[stream.StreamIdentifier()] != stream {
			p.keep(stream.StreamIdentifier(), stream)
		}
		p.lock.Unlock()
	}
	time.Sleep(100 * time.Millisecond) // let readers finish
	p.lock.Lock()
	fmt.Printf("end bytes=%d hash=%016x how=shutdown\n", p.bytes, p.hash.Sum64())
	p.lock.Unlock()
}
