"""Payload protocol identifiers, as registered with IANA: ``send(data, ppid=Ppid.NGAP)``.

>>> from anabranch.ppid import Ppid
>>> Ppid.NGAP
<Ppid.NGAP: 60>
>>> Ppid(18).name
'S1AP'
"""

from enum import IntEnum

__all__ = ["Ppid"]


class Ppid(IntEnum):
    """What the payload of a message is. Peers may use other numbers."""

    UNSPECIFIED = 0
    IUA = 1
    M2UA = 2
    M3UA = 3
    SUA = 4
    M2PA = 5
    V5UA = 6
    H248 = 7
    S1AP = 18
    RUA = 19
    HNBAP = 20
    SBC_AP = 24
    NBAP = 25
    X2AP = 27
    LCS_AP = 29
    M2AP = 43
    M3AP = 44
    DIAMETER = 46
    DIAMETER_DTLS = 47
    WEBRTC_DCEP = 50
    WEBRTC_STRING = 51
    WEBRTC_BINARY_PARTIAL = 52
    WEBRTC_BINARY = 53
    WEBRTC_STRING_PARTIAL = 54
    WEBRTC_STRING_EMPTY = 56
    WEBRTC_BINARY_EMPTY = 57
    NGAP = 60
    XNAP = 61
    F1AP = 62
    E1AP = 64
