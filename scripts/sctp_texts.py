"""The scripts, sources and settings of the rows of 'scripts/unmodified'."""

# Exchanges 'data' with a program that echoes: PEER connect|listen.
PEER = r"""
import os, socket, sys, threading
data = open("data", "rb").read()
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
if sys.argv[1] == "listen":
    s.bind((os.environ["SERVER"], 5000))
    s.listen(1)
    s, _ = s.accept()
else:
    s.connect((os.environ["SERVER"], 5000))
def send():
    for at in range(0, len(data), 5000):
        s.send(data[at:at + 5000])
threading.Thread(target=send, daemon=True).start()
back = b""
while len(back) < len(data):
    part = s.recv(100000)
    assert part, f"the end after {len(back)} bytes"
    back += part
assert back == data, "other bytes"
"""

# Echoes to any number of peers, one after the other.
ECHO = r"""
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind((os.environ["SERVER"], 5000))
s.listen(5)
while True:
    peer, _ = s.accept()
    while part := peer.recv(100000):
        peer.send(part)
    peer.close()
"""

# Sends 'data' to standard output, and stores what comes back.
EXCHANGE = "cat data & head -c 100000 > out; wait"

# 500 connections to a server that first sends the number of its process.
MANY = r"""
import concurrent.futures, os, socket
def one(_):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
    s.connect((os.environ["SERVER"], 5000))
    process, data = s.recv(100), os.urandom(3000)
    s.send(data)
    back = b""
    while len(back) < len(data):
        part = s.recv(10000)
        assert part, "the end"
        back += part
    assert back == data, "other bytes"
    s.close()
    return process
with concurrent.futures.ThreadPoolExecutor(10) as threads:
    processes = set(threads.map(one, range(500)))
assert len(processes) == 500, len(processes)
"""

# The associations are in the tuples #sctp_sndrcvinfo (10) and #sctp_assoc_change (6).
ERLANG = r"""
-module(echo).
-export([server/0, client/0]).
server() ->
    {ok, Ip} = inet:parse_address(os:getenv("SERVER")),
    {ok, S} = gen_sctp:open(5000, [{ip, Ip}, {active, false}, {recbuf, 65536}]),
    ok = gen_sctp:listen(S, true),
    echo(S).
echo(S) ->
    case gen_sctp:recv(S) of
        {ok, {_, _, [Info], Data}} when is_binary(Data); is_list(Data) ->
            ok = gen_sctp:send(S, element(10, Info), element(2, Info), Data), echo(S);
        {ok, {_, _, _, {sctp_shutdown_event, _}}} -> init:stop();
        {ok, _} -> echo(S)
    end.
client() ->
    {ok, Ip} = inet:parse_address(os:getenv("SERVER")),
    {ok, S} = gen_sctp:open([{active, false}]),
    {ok, A} = gen_sctp:connect(S, Ip, 5000, []),
    [ok = exchange(S, element(6, A), N) || N <- lists:seq(1, 100)],
    ok = gen_sctp:eof(S, A), ok = gen_sctp:close(S),
    init:stop().
exchange(S, Id, N) ->
    Data = binary:copy(<<N>>, N * 10),
    ok = gen_sctp:send(S, Id, N rem 5, Data),
    same(S, Data).
same(S, Data) ->
    case gen_sctp:recv(S) of
        {ok, {_, _, [_], Data}} -> ok;
        {ok, {_, _, [_], List}} when is_list(List) -> Data = list_to_binary(List), ok;
        {ok, {_, _, _, Event}} when is_tuple(Event) -> same(S, Data)
    end.
"""

JAVA = r"""
import com.sun.nio.sctp.*;
import java.net.*;
import java.nio.ByteBuffer;

public class Echo {
    public static void main(String[] a) throws Exception {
        var address = new InetSocketAddress(System.getenv("SERVER"), 5000);
        var buffer = ByteBuffer.allocate(100000);
        if (a[0].equals("server")) {
            var listener = SctpServerChannel.open().bind(address);
            var channel = listener.accept();
            for (;;) {
                var info = channel.receive(buffer, null, null);
                if (info == null || info.bytes() < 0) break;
                buffer.flip();
                channel.send(buffer, MessageInfo.createOutgoing(null, info.streamNumber()));
                buffer.clear();
            }
            channel.close();
        } else {
            var channel = SctpChannel.open(address, 0, 0);
            for (int n = 1; n <= 100; n++) {
                var data = new byte[n * 100];
                java.util.Arrays.fill(data, (byte) n);
                channel.send(ByteBuffer.wrap(data), MessageInfo.createOutgoing(null, n % 5));
                buffer.clear();
                var info = channel.receive(buffer, null, null);
                buffer.flip();
                if (info.streamNumber() != n % 5 || !buffer.equals(ByteBuffer.wrap(data))) throw new Exception("bytes");
            }
            channel.shutdown();
            while (channel.receive(buffer, null, null).bytes() >= 0) buffer.clear();
            channel.close();
        }
    }
}
"""

GO = r"""
package main

import (
	"bytes"
	"fmt"
	"net"
	"os"

	"LIBRARY"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func echo(conn *sctp.SCTPConn) {
	buffer := make([]byte, 70000)
	check(conn.SubscribeEvents(sctp.SCTP_EVENT_DATA_IO))
	for {
		n, info, err := conn.SCTPRead(buffer)
		if err != nil {
			conn.Close()
			return
		}
		_, err = conn.SCTPWrite(buffer[:n], &sctp.SndRcvInfo{Stream: info.Stream, PPID: info.PPID})
		check(err)
	}
}

// "server" echoes on the same stream, "client" checks that, and "plain" only compares the bytes.
func main() {
	ip, err := net.ResolveIPAddr("ip", os.Getenv("SERVER"))
	check(err)
	address := &sctp.SCTPAddr{IPAddrs: []net.IPAddr{*ip}, Port: 5000}
	if os.Args[1] == "server" {
		listener, err := sctp.ListenSCTP("sctp", address)
		check(err)
		for {
			conn, err := listener.AcceptSCTP()
			check(err)
			go echo(conn)
		}
	}
	conn, err := sctp.DialSCTP("sctp", nil, address)
	check(err)
	check(conn.SubscribeEvents(sctp.SCTP_EVENT_DATA_IO))
	buffer := make([]byte, 70000)
	for n := 1; n <= 100; n++ {
		data, sent := bytes.Repeat([]byte{byte(n)}, n*500), sctp.SndRcvInfo{Stream: uint16(n % 5), PPID: 60}
		_, err = conn.SCTPWrite(data, &sent)
		check(err)
		got, info, err := conn.SCTPRead(buffer)
		check(err)
		same := info.Stream == sent.Stream && info.PPID == 60 || os.Args[1] == "plain"
		if !same || !bytes.Equal(buffer[:got], data) {
			fmt.Println("other bytes", info, got)
			os.Exit(1)
		}
	}
	check(conn.Close())
}
"""

# free5GC's library has notifications of its own, waits for peers with epoll, and lets signals interrupt that.
GO_CHANGES = {
    "./goecho": [],
    "./free5gc": [
        ("info, err := conn.SCTPRead", "info, _, err := conn.SCTPRead"),
        (
            "conn, err := listener.AcceptSCTP()\n\t\t\tcheck(err)",
            "conn, err := listener.AcceptSCTP(-1)\n\t\t\tif err != nil {\n\t\t\t\tcontinue\n\t\t\t}",
        ),
    ],
}

STP = """
cs7 instance 0
 xua rkm routing-key-allocation dynamic-permitted
 listen m3ua 5000
  accept-asp-connections dynamic-permitted
  local-ip SERVER
"""

# M3UA: ASP Up is acknowledged.
ASP = r"""
import os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect((os.environ["SERVER"], 5000))
info = struct.pack("=HHIII", 0, 0, socket.htonl(3), 0, 0)
s.sendmsg([bytes.fromhex("0100030100000008")], [(132, 2, info)])
while not (m := s.recv(1000)).startswith(bytes.fromhex("01000304")):
    assert m, "no answer to ASP Up"
"""

KAMAILIO = """
log_stderror=yes
fork=yes
children=1
disable_tcp=yes
enable_sctp=yes
loadmodule "sctp.so"
loadmodule "sl.so"
listen=sctp:SERVER:5000
request_route { sl_send_reply("200", "OK"); }
"""

# SIP (RFC 4168): a request is answered.
SIP = r"""
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect((os.environ["SERVER"], 5000))
here = "%s:%d" % s.getsockname()[:2]
lines = [f"OPTIONS sip:{os.environ['SERVER']}:5000;transport=sctp SIP/2.0", f"Via: SIP/2.0/SCTP {here};branch=z9hG4bK1",
         f"From: <sip:one@{here}>;tag=1", f"To: <sip:two@{os.environ['SERVER']}>", "Call-ID: a-call", "CSeq: 7 OPTIONS",
         "Max-Forwards: 70", "Content-Length: 0", "", ""]
for _ in range(20):
    s.send("\r\n".join(lines).encode())
    answer = s.recv(10000)
    assert answer.startswith(b"SIP/2.0 200 OK") and b"Call-ID: a-call" in answer, answer
"""

# It serves eNodeBs without having reached its HSS.
MME = """
logger: {file: mme.log}
mme:
  freeDiameter: mme-diameter.conf
  s1ap: {addr: SERVER}
  gtpc: {addr: SERVER}
  gummei: {plmn_id: {mcc: 001, mnc: 01}, mme_gid: 2, mme_code: 1}
  tai: {plmn_id: {mcc: 001, mnc: 01}, tac: 1}
  security: {integrity_order: [EIA1], ciphering_order: [EEA0]}
sgw: {gtpc: {addr: 127.0.0.2}}
pgw: {gtpc: {addr: [127.0.0.3]}}
"""

# S1AP (3GPP TS 36.413): S1 Setup Request of an eNodeB of the network 001/01 and the area 1, and its answer.
ENODEB = r"""
import os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.connect((os.environ["SERVER"], 36412))
setup = "0011001f 000003 003b0008 0000f11000000100 00400007 0000004000f110 0089400140"
s.sendmsg([bytes.fromhex(setup)], [(132, 2, struct.pack("=HHIII", 0, 0, socket.htonl(18), 0, 0))])
answer = s.recv(10000)
assert answer.startswith(bytes.fromhex("2011")), f"no S1 Setup Response: {answer.hex()}"
"""

# A Diameter peer, and the other one.
DIAMETER = """
Identity = "{own}.example"; Realm = "example"; Port = {port}; SecPort = 0; No_IPv6; No_TCP; ListenOn = "{address}";
TLS_Cred = "{own}.pem", "{own}.key"; TLS_CA = "{own}.pem"; TLS_DH_Bits = 1024;
ConnectPeer = "{other}.example" {{ No_TLS; No_TCP; ConnectTo = "{there}"; Port = {remote}; }};
"""


def files(server):
    """The files of the rows by their names. The server has this address."""
    texts = {
        "peer.py": PEER, "echo.py": ECHO, "many.py": MANY, "asp.py": ASP, "sip.py": SIP, "enodeb.py": ENODEB,
        "echo.erl": ERLANG, "Echo.java": JAVA, "stp.cfg": STP, "kamailio.cfg": KAMAILIO, "mme.conf": MME,
    }
    return {name: text.replace("SERVER", server) if name.endswith((".cfg", ".conf")) else text for name, text in texts.items()}
