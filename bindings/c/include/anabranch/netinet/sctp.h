/* <netinet/sctp.h> for hosts without it: -I$(pkg-config --variable=includedir anabranch)/anabranch */
#ifndef ANABRANCH_NETINET_SCTP_H
#define ANABRANCH_NETINET_SCTP_H
#include <anabranch.h>
#ifndef SOL_SCTP
#define SOL_SCTP IPPROTO_SCTP
#endif
#endif
