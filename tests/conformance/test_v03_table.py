"""docs/conformance-v03.md is held to the sources, as docs/conformance.md is: each sentence has a row."""

from tests.conformance.table import COLUMNS, ROOT, dangling_in, mistakes_of, rows_of

PAGE = ROOT / "docs/conformance-v03.md"

# Every sentence, and every line of an example or a table, that says what is or must be, in the order of the document:
# without the blanks that align it.
SENTENCES = [
    "Version 3 is a proposal for a next iteration of Sarracenia messages, but it is not fully"
    " implemented, and not in use anywhere, and may never be used.",
    "It is also not frozen yet and subject to change.",
    "Most fields and their meaning is the same in version 3 as it was in version 2.",
    "To generate messages in v03 format, use following setting: post_topic_prefix v03.post",
    "To select messages to consume in that format: topic_prefix v03.post",
    "An sr_post message consists of a topic, and the *BODY*",
    "**AMQP Topic:** *<version>.[post|report].{<dir>.}*",
    '<version> = "v03" the version of the protocol or format.',
    '"post" = the type of message within the protocol.',
    "<dir> = a sub-directory leading to the file (perhaps many directories deep)",
    "**BODY:** *{ <headers> }* (JSON encoding.)",
    "The headers are an array of name:value pairs",
    '"pubTime" - YYYYMMDDTHHMMSS.ss - UTC date/timestamp.',
    '"baseUrl" - root of the url to download.',
    '"relPath" - relative path can be catenated to <base_url>',
    '"identity" - WMO version of v02 sum field, under development. { "method" : "md5" | "sha512" |'
    ' "md5name" | "link" | "remove" | "cod" | "random" , "value" : "base64 encoded checksum value" }',
    'one of: "identity" - for changes in file contents, an identity checksum. { "method" : "md5" |'
    ' "sha512" | "cod" | "random" , "value" : "base64 encoded checksum value" }',
    'or: "fileOp" - to describe non-data file update operations.',
    '"link" : "symbolic link value (target) string"',
    '"remove" : "" - flag present when removing a file (argument ignored.)',
    '"hlink" : "hardlink value string (file being linked to.)"',
    '"rename" : "name of file before rename."',
    "or: nothing... If neither of these is present, the md5sum will be assumed and used to perform"
    " duplicate suppression.",
    '"size" - the number of bytes being advertised.',
    '"blocks" - if the file being advertised is partitioned, then:',
    '"method" : "inplace" | "partitioned" , - is the file already in parts?',
    '"size" : "9999", - size of the blocks.',
    '"count" : "9999", - number of blocks in the file.',
    '"remainder" : "9999", - the size of the last block.',
    '"number" : "9999", - which block is this.',
    '"rename" - name to write file locally.',
    '"topic" - copy of topic from AMQP header (usually omitted)',
    '"source" - the originating entity of the message.',
    '"from_cluster" - the originating cluster of a message.',
    '"to_clusters" - a destination specification.',
    '"link" - value of a symbolic link. (if sum starts with L)',
    '"atime" - last access time of a file (optional)',
    '"mtime" - last modification time of a file (optional)',
    '"mode" - permission bits (optional)',
    '"content" - for smaller files, the content may be embedded.',
    '"encoding" : "utf-8" | "base64" ,',
    '"value" " "encoded file content"',
    'For "v03.report" topic messages the following addtional headers will be present:',
    '"report" - status report field documented in `Report Messages`_',
    '"message" - status report message documented in `Report Messages`_',
    "additional user defined name:value pairs are permitted.",
    "The **parts** header has not yet been reviewed by others.",
    "Sources create messages in the *sr_post* format to announce file changes.",
    "Subscribers read the post to decide whether a download of the content being announced is warranted.",
    "This manual page completely describes the format of those messages.",
    "The messages are payloads for an Advanced Message Queuing Protocol (AMQP) message bus, but file data"
    " transport is separate, using more common protocols such as SFTP, HTTP, HTTPS, or FTP (or other?).",
    "Files are transported as pure byte streams, no metadata beyond the file contents is transported"
    " (permission bits, extended attributes, etc...).",
    "Permissions of files on the destination system are upto the receiver to decide.",
    "With this method, AMQP messages provide a 'control plane' for data transfers.",
    "While each post message is essentially point to point, data pumps can be transitively linked"
    " together to make arbitrary networks.",
    "Each posting is consumed by the next hop in the chain.",
    "Each hop re-advertises (creates a new post for) the data for later hops.",
    "The posts flow in the same direction as the data.",
    "If consumers permit it, report messages (see sr_report(7)) also flow through the control path, but"
    " in the opposite direction, allowing sources to know the entire disposition of their files through a"
    " network.",
    "The messages make use of *topic exchanges* from AMQP, where topics are hierarchies meant to"
    " represent subjects of interest to a consumer.",
    "A consumer may upload the selection criteria to the broker so that only a small subset of postings"
    " are forwarded to the client.",
    "Each product has an identity fingerprint and size intended to identify it uniquely, referred to as a"
    " *fingerprint*.",
    "If two files have the same fingerprint, they are considered equivalent.",
    "In cases where multiple sources of equivalent data are available but downstream consumers would"
    " prefer to receive single announcements of files, intermediate processes may elect to publish"
    " notifications of the first product with a given fingerprint, and ignore subsequent ones.",
    "Propagating only the first occurrence of a datum received downstream, based on its fingerprint, is"
    " termed: *Fingerprint Winnowing*.",
    "*Fingerprint Winnowing* is the basis for a robust strategy for high availability: setting up"
    " multiple sources for the same data, consumers accept announcements from all of them, but only"
    " forwarding the first one received downstream.",
    "In normal operation, one source may be faster than the others, and so the other sources' files are"
    " usually 'winnowed'.",
    "The advantage of this method for high availability is that no A/B decision is required.",
    "When one source disappears, the other sources' data is automatically selected, as the fingerprints"
    " are now *fresh* and used, until a faster source becomes available.",
    "The time to *switchover* is zero.",
    "*Fingerprint Winnowing* also permits *mesh-like*, or *any to any* networks, where one simply"
    " interconnects a node with others, and messages propagate.",
    "Their specific path through the network is not defined, but each participant will download each new"
    " datum from the first node that makes it available to them.",
    "To avoid defining a maximum file size, a segmentation standard is specified, allowing intervening"
    " nodes to hold only segments of the file, and forward them as they are received, rather than being"
    " forced to hold the entire file.",
    "Partitioning also permits multiple streams to transfer portions of the file in parallel.",
    "In topic based AMQP exchanges, every message has a topic header.",
    "AMQP defines the '.' character as a hierarchical separator (like '\\' in a windows path name, or '/'"
    " on linux) there is also a pair of wildcards defined by the standard: '*' matches a single topic, '#'"
    " matches the rest of the topic string.",
    "To allow for changes in the message body in the future, topic trees begin with the version number of"
    " the protocol.",
    "AMQP allows server side topic filtering using wildcards.",
    "Subscribers specify topics of interest (which correspond to directories on the server), allowing"
    " them to pare down the number of notifications sent from server to client.",
    'The root of the topic tree is the version specifier: "v03".',
    "Next comes the message type specifier. These two fields define the protocol that is in use for the"
    " rest of the message.",
    'The message type for post messages is "post".',
    "After the fixed topic prefix, the remaining sub-topics are the path elements of the file on the web server.",
    "For example, if a file is placed on http://www.example.com/a/b/c/d/foo.txt, then the complete topic"
    " of the message will be: *v03.post.a.b.c.d*",
    "AMQP fields are limited to 255 characters, and the characters in the field are utf8 encoded, so"
    " actual length limit may be less than that.",
    "Sarracenia relies on brokers to interpret the topic header.",
    "Therefore the topic header is stored in an AMQP header, rather than the payload to permit server-side filtering.",
    "To avoid sending the same information twice, this header is omitted from the JSON payload.",
    "Many client-side implementation will, once the message is loaded, set the *topic* header in the"
    " in-memory structure, so it would be very unwise to to set the *topic* header in an application even"
    " though it isn't visible in the on-wire payload.",
    "One goal of v03 format is to have a payload format that works with more than just AMQP.",
    "Firstly, the topic separate in MQTT is a forward slash (/), instead of the period (.) used in AMQP.",
    "MQTT has no similar concept, there is simply one hierarchy, so when mapping, place the exchange name"
    " at the root of the topic hierarchy to achieve the same effect",
    "AMQP: Exchange: <exchange name> topic: v03.post.<directory>...",
    "MQTT: topic: <exchange name>/v03/post/<directory>...",
    "The message is a single JSON encoded array, with a mandatory set of fields, while allowing for use"
    " of arbitrary other fields.",
    "Mandatory fields must be present in every message, and",
    '"pubTime" : "*<date stamp>*" : the publication date the posting was emitted. Format:'
    " YYYYMMDDTHHMMSS. *<decimalseconds>*",
    "The datestamp is always in the UTC timezone.",
    '"baseUrl" : "<*base_url*>" -- the base URL used to retrieve the data.',
    '"relPath" : "<*relativepath*>" -- the variable part of the URL, usually appended to *baseUrl*.',
    "The URL consumers will use to download the data. Example of a complete URL:"
    " sftp://afsiext@cmcdataserver/data/NRPDS/outputs/NRPDS_HiRes_000.gif",
    "The from_cluster header defines the name of the source cluster where the data was introduced into the network.",
    "It is used to return the logs back to the cluster whenever its products are used.",
    "When file to transfer is a symbolic link, the 'link' header is created to contain its value.",
    "v02: **parts=<method>,<bsz>,<blktot>,<brem>,<bno>**",
    'v03: "size":<sz> , "blocks" : { "method": "inplace" or "partitioned", "size": <bsz>, "count":'
    ' <blktot>, "remainder": <brem>, "number": <bno> }',
    "A header indicating the method and parameters for partitioning applied for the file.",
    "Partitioning is used to send a single file as a collection of segments, rather than as a single entity.",
    "When transferring partitioned files, each partition is advertised and potentially transported"
    " independently across a data pumping network.",
    "Indicates what partitioning method, if any, was used in transmission.",
    "p - partitioned | File is partitioned, individual part files are created.",
    "i - inplace | File is partitioned, but blocks are read from a single file, rather than parts.",
    "1 - <sizeonly> | File is in a single part (no partitioning). in v03, only *size* header will be"
    " present. *blocks* is omitted",
    "The number of bytes in a block. When using method 1, the size of the block is the size of the file.",
    "Remaining fields only useful for partitioned files.",
    "the integer total number of blocks in the file (last block may be partial)",
    "normally 0, on the last block, remaining bytes in the file to transfer.",
    "if (fzb=1 and brem=0) then bsz=fsz in bytes in bytes. -- entire files replaced.",
    "0 origin, the block number covered by this posting.",
    "The relative path from the current directory in which to place the file.",
    "when a file is renamed at the source, to send it to subscribers, two posts result: one message is"
    " announced with the new name as the base_url, and the oldname header set to the previous file name.",
    "Another message is sent with the old name as the src path, and the *newname* as a header.",
    "This ensures that *accept/reject* clauses are correctly interpreted, as a *rename* may result in a"
    " download if the former name matches a *reject* clause, or a file removal if the new name matches a"
    " *reject* clause.",
    "Hard links are also handled as an ordinary post of the file with a *oldname* header set.",
    "a character field indicating the source of the data injected into the network.",
    "should be unique within a data pumping network. It's usually the same as the account used to"
    " authenticate to the broker.",
    "The sum is a v02 signature computed to allow receivers to determine if they have already downloaded"
    " the partition from elsewhere.",
    "*<method>* - character field indicating the checksum algorithm used.",
    "0 - random | No checksums (unconditional copy.) Skips reading file (faster)",
    "a - arbitrary | arbitrary, application defined value which cannot be calculated",
    "d - md5 | Checksum the entire data (MD-5 as per IETF RFC 1321)",
    "L - link | Linked: SHA512 sum of link value",
    "n - md5name | Checksum the file name (MD-5 as per IETF RFC 1321)",
    "R - remove | Removed: SHA512 of file name.",
    "s - sha512 | Checksum the entire data (SHA512 as per IETF RFC 6234)",
    "z - cod | Checksum on download, with algorithm as argument Example: z,d means download, applying d"
    " checksum, and advertise with that calculated checksum when propagating further.",
    "*<name>* | Checksum with some other algorithm, named *<name>* *<name>* should be *registered* in the"
    " data pumping network. Registered means that all downstream subscribers can obtain the algorithm to"
    " validate the checksum.",
    "*<value>* The value is computed by applying the given method to the partition being transferred.",
    "for algorithms for which no value makes sense, a random integer is generated to support checksum"
    " based load balancing.",
    'Is a v03 version of the sum field made more explicit. For example: "sum" : "d,hexsumvalue" --->'
    ' "identity" : { "method":"md5", "value":"base64sumvalue" }',
    "This is partially supported for now (produce but do not consume.)",
    "there is a change in encoding from hex to base64 for compactness' sake.",
    "As the values for cod and zero sums are not encoded, they are the same in both v02 and v03.",
    "The to_clusters defines a list of destination clusters where the data should go into the network.",
    "Each name should be unique within all exchanging rabbitmq clusters. It is used to do the transit of"
    " the products and their notices through the exchanging clusters.",
    '**"topic": v03.post.<relpath without filename>** ( RESERVED )',
    "The topic header is not present in the JSON payload of the message. It is instead stored in a"
    " protocol specific header (AMQP HEADER.) when an application reads the AMQP header into memory, it"
    " will typically add this to the in-memory structure.",
    "Some clients may return telemetry to the origin of downloaded data for troubleshooting and statistical purposes.",
    "Such messages, have the *v03.report* topic, and have a *report* header which is a JSON *object* with four fields:",
    '{ "elapsedTime": <report_time>, "resultCode": <report_code>, "host": <report_host>, "user": <report_user>* }',
    "*<report_code>* result codes describe in the next session",
    "*<report_time>* time the report was generated.",
    "*<report_host>* hostname from which the retrieval was initiated.",
    "*<report_user>* broker username from which the retrieval was initiated.",
    "Report messages should never include the *content* header (no file embedding in reports.)",
    "The report code is a three digit status code, adopted from the HTTP protocol (w3.org/IETF RFC 2616)"
    " encoded as text.",
    "2xx indicates successful completion,",
    "3xx indicates further action is required to complete the operation.",
    "4xx indicates a permanent error on the client prevented a successful operation.",
    "5xx indicates a problem on the server prevented successful operation.",
    "The specific error codes returned, and their meanings are implementation-dependent.",
    "201 | Download successful. (variations: Downloaded, Inserted, Published, Copied, or Linked)",
    "203 | Non-Authoritative Information: transformed during download.",
    "205 | Reset Content: truncated. File is shorter than originally expected (changed length during"
    " transfer) This only arises during multi-part transfers.",
    "205 | Reset Content: checksum recalculated on receipt.",
    "304 | Not modified (Checksum validated, unchanged, so no download resulted.)",
    "307 | Insertion deferred (writing to temporary part file for the moment.)",
    "417 | Expectation Failed: invalid message (corrupt headers)",
    "496 | failure: During send, other protocol failure.",
    "497 | failure: During send, other protocol failure.",
    "499 | Failure: Not Copied. SFTP/FTP/HTTP download problem",
    "503 | Service unavailable. delete (File removal not currently supported.)",
    "503 | Unable to process: Service unavailable",
    "503 | Unsupported transport protocol specified in posting.",
    "xxx | Message and file validation status codes are script dependent",
    "*<report_message>* a string.",
    "man 2 stat - the linux/unix standard file metadata: access time, modification time, and permission (mode bits)",
    "the times are in the same date format as the pubTime field.",
    "the permission string is four characters intended to be interpreted as traditional octal linux/unix permissions.",
    "**Headers which are unknown to a given broker MUST be forwarded without modification.**",
    "Sarracenia provides a mechanism for users to include arbitrary other headers in messages, to amplify"
    " metadata for more detailed decision making about downloading data.",
    '"PRINTER" : "name_of_corporate_printer",',
    '"GeograpicBoundingBox" : { "top_left" : { "lat": 40.73, "lon": -74.1 } , "bottom_right": { "lat":'
    ' -40.01, "lon": -71.12 } }',
    "Intervening implementation may know nothing about the header, but they should not be stripped, as"
    " some consumers may understand and process them.",
    "AMQP TOPIC: v03.post.NRDPS.GIF",
    "MQTT TOPIC: exchange/v03/post/NRDPS/GIF/",
    'Body: { "pubTime": "201506011357.345", "baseUrl": "sftp://afsiext@cmcdataserver", "relPath":'
    ' "/data/NRPDS/outputs/NRDPS_HiRes_000.gif", "rename": "NRDPS/GIF/", "parts":"p,457,1,0,0", "identity"'
    ' : { "method":"md5", "value":"<md5sum-base64>" }, "source": "ec_cmc" }',
    "version and type together determine format of following topics and the message body.",
    "- blocksize is 457 (== file size) - block count is 1 - remainder is 0. - block number is 0. - d -"
    " checksum was calculated on the body of the file.",
    "complete source URL specified (does not end in '/')",
    "pull from: sftp://afsiext@cmcdataserver/data/NRPDS/outputs/NRDPS_HiRes_000.gif",
    "complete relative download path: NRDPS/GIF/NRDPS_HiRes_000.gif -- takes file name from base_url.",
    "-- may be modified by validation process.",
    "AMQP Topic: v03.post.20150813.data.shared.products",
    "MQTT Topic: <exchange>/v03/post/20150813/data/shared/products",
    'Body: { "pubTime":"20150813T161959.854", "baseUrl":"sftp://stanley@mysftpserver.com/", "relPath":'
    ' "/data/shared/products/foo", "parts":"1,256,1,0,0", "sum": "d,25d231ec0ae3c569ba27ab7a74dd72ce",'
    ' "source":"guest" }',
    "Here, *sr_watch* checks if the file /data/shared/products/foo is modified. When it happens,"
    " *sr_watch* reads the file /data/shared/products/foo and calculates its checksum.",
    "Posts are published on AMQP topic exchanges, meaning every message has a topic header.",
    "The body consists of a time *20150813T161959.854*, followed by the two parts of the retrieval URL.",
    "The headers follow with first the *parts*, a size in bytes *256*, the number of block of that size"
    " *1*, the remaining bytes *0*, the current block *0*, a flag *d* meaning the md5 checksum is"
    " performed on the data, and the checksum *25d231ec0ae3c569ba27ab7a74dd72ce*.",
    "This implementation is licensed using the General Public License (Gnu GPL v2), and is thus free to"
    " use, and can be used to confirm interoperability with any other implementations that may arise.",
    "This Manual page is intended to completely specify the format of messages and their intended meaning"
    " so that other producers and consumers of messages can be implemented.",
    "Version 03 is a change in encoding, but the semantics of the fields are unchanged from version 02.",
    "v03 headers have practically unlimited length.",
    "In v03, the limit is not defined by the JSON standard, but by specific parser implementations.",
    "use of message payload to store headers makes it possible to consider other messaging protocols,"
    " such as MQTT 3.1.1, in future.",
    "In v03, pure JSON payload simplifies implementations, reduces documentation required, and amount of"
    " parsing to implement. Using a commonly implemented format permits use of existing optimized parsers.",
    'v02 fixed fields are now "pubTime", "baseURL", and "relPath" keys in the JSON object that is the messge body.',
    "v02 *sum* header with hex encoded value, is replaced by v03 *identity* header with base64 encoding.",
    "v03 *content* header allows file content embedding.",
    "In v03, the format of save files is the same as message payload.",
    "In v03, the report format is a post message with a header, rather than being parsed differently. So"
    " this single spec applies to both.",
    "As the use of brokers is key to Sarracenia´s use of, was a fundamental element of earlier standards,"
    " and as the 1.0 standard is relatively controversial, this protocol assumes a pre 1.0 standard"
    " broker, as is provided by many free brokers, such as rabbitmq and Apache QPid, often referred to as"
    " 0.8, but 0.9 and post 0.9 brokers could inter-operate well.",
    "in AMQP 0.9, one subscriber can declare a queue, and then multiple processes (given the right"
    " permissions and the queue name) can consume from the same queue. That requires being able to name"
    " the queue.",
    "In another protocol, such as MQTT, one cannot name the queue, and so this processing pattern is not supported.",
    "The mapping convention describte in a Topic_ section, allows MQTT to establish separate hierarchies"
    " which provides a fixed distribution among the workers, but not exactly the self-balancing shared"
    " queue that AMQP provides.",
    "Exchanges begin with: xs_<user>_.",
    "Queue names begin with: q_<user>_.",
    "Topic-based exchanges are used exclusively. AMQP supports many other types of exchanges, but sr_post"
    " have the topic sent in order to support server side filtering by using topic based filtering.",
    "In Sarracenia, topics are chosen to mirror the path of the files being announced, allowing"
    " straight-forward server-side filtering, to be augmented by client-side filtering on message"
    " reception.",
    "The root of the topic tree is the version of the message payload.",
    "This allows single brokers to easily support multiple versions of the protocol at the same time"
    " during transitions.",
    "The second sub-topic defines the type of message.",
    "The AMQP messages contain announcements, no actual file data.",
    "Accomodating large messages would create many practical complications, and inevitably require the"
    " definition of a maximum file size to be included in the message itself, resulting in complexity to"
    " cover multiple cases.",
    "Sr_post is intended for use with arbitrarily large files, via segmentation and multi-streaming.",
    "Blocks of large files are announced independently and blocks can follow different paths between"
    " initial pump and final delivery.",
    "The protocol is unidirectional, in that there is no dialogue between publisher and subscriber.",
    "Each post is a stand-alone item that is one message in a stream, which on receipt may be spread over"
    " a number of nodes.",
    "For now, the *content* header is included to allow such experiments to occur.",
    "persistence (have queues survive broker restarts, default to true),",
    "expiry (how long a queue should exist when no-one is consuming from it. Default: a few minutes for"
    " development, but can set much longer for production)",
    "message_ttl (the life-span of queued messages. Messages that are too old will not be delivered:"
    " default is forever.)",
    "Pre-fetch is an AMQP tunable to determine how many messages a client will retrieve from a broker at"
    " once, optimizing streaming. (default: 25)",
    "These are used in declarations of queues and exchanges to provide appropriate message processing.",
    "Sarracenia relies on `AMQP pre 1.0 <https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf>`_ as the"
    " 1.0 standard eliminated concepts: broker, exchange, queue, and binding.",
    "JSON is defined by `IETF RFC 7159 <https://www.rfc-editor.org/info/rfc7159>`_.",
    "JSON standard includes mandatory use of UNICODE character set (ISO 10646) JSON default character set"
    " is UTF-8, but allows multiple character encodings (UTF-8, UTF-16, UTF-32), but also prohibits"
    " presence of byte order markings (BOM.)",
    "the same as Sarracenia v02, UTF-8 is mandatory. Sarracenia restricts JSON format by requiring of"
    " UTF-8 encoding, (IETF RFC 3629) which does not need/use BOM. No other encoding is permitted.",
    "URL encoding, as per IETF RFC 1738, is used to escape unsafe characters where appropriate.",
    "MQTT refers to `MQTT v3.1.1 <http://docs.oasis-open.org/mqtt/mqtt/v3.1.1/os/mqtt-v3.1.1-os.html>`_,"
    " the most widely implemented version at this time.",
]


def test_every_sentence_has_its_row_and_every_row_its_tests() -> None:
    sentences = [each.replace("|", "\\|") for each in SENTENCES]
    page = PAGE.read_text()
    assert mistakes_of(page, sentences, {}) == []
    assert [row[1].strip("“”") for row in rows_of(page)] == sentences
    assert all(len(row) == len(COLUMNS) for row in rows_of(page))


def test_decisions_and_rows_that_are_named_exist() -> None:
    assert dangling_in(PAGE.read_text()) == set()


def test_every_decision_about_the_feed_is_named() -> None:
    """Where the document contradicts itself, the row says what was decided."""
    page = PAGE.read_text()
    assert [number for number in range(81, 92) if f"D-{number}" not in page] == []
