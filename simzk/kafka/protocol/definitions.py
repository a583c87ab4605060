"""Definitions of Kafka's messages in every version up to 3.9: names, types, versions, tags, defaults.

`schema.py` says how to read a line. Made by `python -m tests.kafka.protocol.make_table`; do not edit.
"""

DEFINITIONS = """
header RequestHeader 0-2 flexible 2+
  RequestApiKey int16 0+
  RequestApiVersion int16 0+
  CorrelationId int32 0+
  ClientId string 1+ null 1+ ignorable inflexible
header ResponseHeader 0-1 flexible 1+
  CorrelationId int32 0+
request 0 ProduceRequest 0-11 flexible 9+
  TransactionalId string 3+ null 3+ default null
  Acks int16 0+
  TimeoutMs int32 0+
  TopicData []TopicProduceData 0+
    Name string 0+
    PartitionData []PartitionProduceData 0+
      Index int32 0+
      Records records 0+ null 0+
response 0 ProduceResponse 0-11 flexible 9+
  Responses []TopicProduceResponse 0+
    Name string 0+
    PartitionResponses []PartitionProduceResponse 0+
      Index int32 0+
      ErrorCode int16 0+
      BaseOffset int64 0+
      LogAppendTimeMs int64 2+ default -1 ignorable
      LogStartOffset int64 5+ default -1 ignorable
      RecordErrors []BatchIndexAndErrorMessage 8+ ignorable
        BatchIndex int32 8+
        BatchIndexErrorMessage string 8+ null 8+ default null
      ErrorMessage string 8+ null 8+ default null ignorable
      CurrentLeader LeaderIdAndEpoch 10+ tag 0 10+
        LeaderId int32 10+ default -1
        LeaderEpoch int32 10+ default -1
  ThrottleTimeMs int32 1+ ignorable
  NodeEndpoints []NodeEndpoint 10+ tag 0 10+
    NodeId int32 10+
    Host string 10+
    Port int32 10+
    Rack string 10+ null 10+ default null
request 1 FetchRequest 0-17 flexible 12+
  ClusterId string 12+ null 12+ tag 0 12+ default null ignorable
  ReplicaId int32 0-14 default -1
  ReplicaState ReplicaState 15+ tag 1 15+
    ReplicaId int32 15+ default -1
    ReplicaEpoch int64 15+ default -1
  MaxWaitMs int32 0+
  MinBytes int32 0+
  MaxBytes int32 3+ default 0x7fffffff ignorable
  IsolationLevel int8 4+ ignorable
  SessionId int32 7+ ignorable
  SessionEpoch int32 7+ default -1 ignorable
  Topics []FetchTopic 0+
    Topic string 0-12 ignorable
    TopicId uuid 13+ ignorable
    Partitions []FetchPartition 0+
      Partition int32 0+
      CurrentLeaderEpoch int32 9+ default -1 ignorable
      FetchOffset int64 0+
      LastFetchedEpoch int32 12+ default -1
      LogStartOffset int64 5+ default -1 ignorable
      PartitionMaxBytes int32 0+
      ReplicaDirectoryId uuid 17+ tag 0 17+ ignorable
  ForgottenTopicsData []ForgottenTopic 7+
    Topic string 7-12 ignorable
    TopicId uuid 13+ ignorable
    Partitions []int32 7+
  RackId string 11+ ignorable
response 1 FetchResponse 0-17 flexible 12+
  ThrottleTimeMs int32 1+ ignorable
  ErrorCode int16 7+ ignorable
  SessionId int32 7+
  Responses []FetchableTopicResponse 0+
    Topic string 0-12 ignorable
    TopicId uuid 13+ ignorable
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      HighWatermark int64 0+
      LastStableOffset int64 4+ default -1 ignorable
      LogStartOffset int64 5+ default -1 ignorable
      DivergingEpoch EpochEndOffset 12+ tag 0 12+
        Epoch int32 12+ default -1
        EndOffset int64 12+ default -1
      CurrentLeader LeaderIdAndEpoch 12+ tag 1 12+
        LeaderId int32 12+ default -1
        LeaderEpoch int32 12+ default -1
      SnapshotId SnapshotId 12+ tag 2 12+
        EndOffset int64 0+ default -1
        Epoch int32 0+ default -1
      AbortedTransactions []AbortedTransaction 4+ null 4+ ignorable
        ProducerId int64 4+
        FirstOffset int64 4+
      PreferredReadReplica int32 11+ default -1
      Records records 0+ null 0+
  NodeEndpoints []NodeEndpoint 16+ tag 0 16+
    NodeId int32 16+
    Host string 16+
    Port int32 16+
    Rack string 16+ null 16+ default null
request 2 ListOffsetsRequest 0-9 flexible 6+
  ReplicaId int32 0+
  IsolationLevel int8 2+
  Topics []ListOffsetsTopic 0+
    Name string 0+
    Partitions []ListOffsetsPartition 0+
      PartitionIndex int32 0+
      CurrentLeaderEpoch int32 4+ default -1 ignorable
      Timestamp int64 0+
      MaxNumOffsets int32 0 default 1
response 2 ListOffsetsResponse 0-9 flexible 6+
  ThrottleTimeMs int32 2+ ignorable
  Topics []ListOffsetsTopicResponse 0+
    Name string 0+
    Partitions []ListOffsetsPartitionResponse 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      OldStyleOffsets []int64 0
      Timestamp int64 1+ default -1
      Offset int64 1+ default -1
      LeaderEpoch int32 4+ default -1
request 3 MetadataRequest 0-12 flexible 9+
  Topics []MetadataRequestTopic 0+ null 1+
    TopicId uuid 10+ ignorable
    Name string 0+ null 10+
  AllowAutoTopicCreation bool 4+ default true
  IncludeClusterAuthorizedOperations bool 8-10
  IncludeTopicAuthorizedOperations bool 8+
response 3 MetadataResponse 0-12 flexible 9+
  ThrottleTimeMs int32 3+ ignorable
  Brokers []MetadataResponseBroker 0+
    NodeId int32 0+
    Host string 0+
    Port int32 0+
    Rack string 1+ null 1+ default null ignorable
  ClusterId string 2+ null 2+ default null ignorable
  ControllerId int32 1+ default -1 ignorable
  Topics []MetadataResponseTopic 0+
    ErrorCode int16 0+
    Name string 0+ null 12+
    TopicId uuid 10+ ignorable
    IsInternal bool 1+ ignorable
    Partitions []MetadataResponsePartition 0+
      ErrorCode int16 0+
      PartitionIndex int32 0+
      LeaderId int32 0+
      LeaderEpoch int32 7+ default -1 ignorable
      ReplicaNodes []int32 0+
      IsrNodes []int32 0+
      OfflineReplicas []int32 5+ ignorable
    TopicAuthorizedOperations int32 8+ default -2147483648
  ClusterAuthorizedOperations int32 8-10 default -2147483648
request 4 LeaderAndIsrRequest 0-7 flexible 4+
  ControllerId int32 0+
  isKRaftController bool 7+
  ControllerEpoch int32 0+
  BrokerEpoch int64 2+ default -1 ignorable
  Type int8 5+
  UngroupedPartitionStates []LeaderAndIsrPartitionState 0-1
  TopicStates []LeaderAndIsrTopicState 2+
    TopicName string 2+
    TopicId uuid 5+ ignorable
    PartitionStates []LeaderAndIsrPartitionState 2+
  LiveLeaders []LeaderAndIsrLiveLeader 0+
    BrokerId int32 0+
    HostName string 0+
    Port int32 0+
  struct LeaderAndIsrPartitionState
    TopicName string 0-1 ignorable
    PartitionIndex int32 0+
    ControllerEpoch int32 0+
    Leader int32 0+
    LeaderEpoch int32 0+
    Isr []int32 0+
    PartitionEpoch int32 0+
    Replicas []int32 0+
    AddingReplicas []int32 3+ ignorable
    RemovingReplicas []int32 3+ ignorable
    IsNew bool 1+ ignorable
    LeaderRecoveryState int8 6+
response 4 LeaderAndIsrResponse 0-7 flexible 4+
  ErrorCode int16 0+
  PartitionErrors []LeaderAndIsrPartitionError 0-4
  Topics []LeaderAndIsrTopicError 5+
    TopicId uuid 5+
    PartitionErrors []LeaderAndIsrPartitionError 5+
  struct LeaderAndIsrPartitionError
    TopicName string 0-4 ignorable
    PartitionIndex int32 0+
    ErrorCode int16 0+
request 5 StopReplicaRequest 0-4 flexible 2+
  ControllerId int32 0+
  isKRaftController bool 4+
  ControllerEpoch int32 0+
  BrokerEpoch int64 1+ default -1 ignorable
  DeletePartitions bool 0-2
  UngroupedPartitions []StopReplicaPartitionV0 0
    TopicName string 0
    PartitionIndex int32 0
  Topics []StopReplicaTopicV1 1-2
    Name string 1-2
    PartitionIndexes []int32 1-2
  TopicStates []StopReplicaTopicState 3+
    TopicName string 3+
    PartitionStates []StopReplicaPartitionState 3+
      PartitionIndex int32 3+
      LeaderEpoch int32 3+ default -1
      DeletePartition bool 3+
response 5 StopReplicaResponse 0-4 flexible 2+
  ErrorCode int16 0+
  PartitionErrors []StopReplicaPartitionError 0+
    TopicName string 0+
    PartitionIndex int32 0+
    ErrorCode int16 0+
request 6 UpdateMetadataRequest 0-8 flexible 6+
  ControllerId int32 0+
  isKRaftController bool 8+
  Type int8 8+ tag 0 8+
  ControllerEpoch int32 0+
  BrokerEpoch int64 5+ default -1 ignorable
  UngroupedPartitionStates []UpdateMetadataPartitionState 0-4
  TopicStates []UpdateMetadataTopicState 5+
    TopicName string 5+
    TopicId uuid 7+ ignorable
    PartitionStates []UpdateMetadataPartitionState 5+
  LiveBrokers []UpdateMetadataBroker 0+
    Id int32 0+
    V0Host string 0 ignorable
    V0Port int32 0 ignorable
    Endpoints []UpdateMetadataEndpoint 1+ ignorable
      Port int32 1+
      Host string 1+
      Listener string 3+ ignorable
      SecurityProtocol int16 1+
    Rack string 2+ null 0+ ignorable
  struct UpdateMetadataPartitionState
    TopicName string 0-4 ignorable
    PartitionIndex int32 0+
    ControllerEpoch int32 0+
    Leader int32 0+
    LeaderEpoch int32 0+
    Isr []int32 0+
    ZkVersion int32 0+
    Replicas []int32 0+
    OfflineReplicas []int32 4+ ignorable
response 6 UpdateMetadataResponse 0-8 flexible 6+
  ErrorCode int16 0+
request 7 ControlledShutdownRequest 0-3 flexible 3+
  BrokerId int32 0+
  BrokerEpoch int64 2+ default -1 ignorable
response 7 ControlledShutdownResponse 0-3 flexible 3+
  ErrorCode int16 0+
  RemainingPartitions []RemainingPartition 0+
    TopicName string 0+
    PartitionIndex int32 0+
request 8 OffsetCommitRequest 0-9 flexible 8+
  GroupId string 0+
  GenerationIdOrMemberEpoch int32 1+ default -1 ignorable
  MemberId string 1+ ignorable
  GroupInstanceId string 7+ null 7+ default null
  RetentionTimeMs int64 2-4 default -1 ignorable
  Topics []OffsetCommitRequestTopic 0+
    Name string 0+
    Partitions []OffsetCommitRequestPartition 0+
      PartitionIndex int32 0+
      CommittedOffset int64 0+
      CommittedLeaderEpoch int32 6+ default -1 ignorable
      CommitTimestamp int64 1 default -1
      CommittedMetadata string 0+ null 0+
response 8 OffsetCommitResponse 0-9 flexible 8+
  ThrottleTimeMs int32 3+ ignorable
  Topics []OffsetCommitResponseTopic 0+
    Name string 0+
    Partitions []OffsetCommitResponsePartition 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
request 9 OffsetFetchRequest 0-9 flexible 6+
  GroupId string 0-7
  Topics []OffsetFetchRequestTopic 0-7 null 2-7
    Name string 0-7
    PartitionIndexes []int32 0-7
  Groups []OffsetFetchRequestGroup 8+
    GroupId string 8+
    MemberId string 9+ null 9+ default null ignorable
    MemberEpoch int32 9+ default -1 ignorable
    Topics []OffsetFetchRequestTopics 8+ null 8+
      Name string 8+
      PartitionIndexes []int32 8+
  RequireStable bool 7+
response 9 OffsetFetchResponse 0-9 flexible 6+
  ThrottleTimeMs int32 3+ ignorable
  Topics []OffsetFetchResponseTopic 0-7
    Name string 0-7
    Partitions []OffsetFetchResponsePartition 0-7
      PartitionIndex int32 0-7
      CommittedOffset int64 0-7
      CommittedLeaderEpoch int32 5-7 default -1 ignorable
      Metadata string 0-7 null 0-7
      ErrorCode int16 0-7
  ErrorCode int16 2-7 ignorable
  Groups []OffsetFetchResponseGroup 8+
    GroupId string 8+
    Topics []OffsetFetchResponseTopics 8+
      Name string 8+
      Partitions []OffsetFetchResponsePartitions 8+
        PartitionIndex int32 8+
        CommittedOffset int64 8+
        CommittedLeaderEpoch int32 8+ default -1 ignorable
        Metadata string 8+ null 8+
        ErrorCode int16 8+
    ErrorCode int16 8+
request 10 FindCoordinatorRequest 0-6 flexible 3+
  Key string 0-3
  KeyType int8 1+
  CoordinatorKeys []string 4+
response 10 FindCoordinatorResponse 0-6 flexible 3+
  ThrottleTimeMs int32 1+ ignorable
  ErrorCode int16 0-3
  ErrorMessage string 1-3 null 1-3 ignorable
  NodeId int32 0-3
  Host string 0-3
  Port int32 0-3
  Coordinators []Coordinator 4+
    Key string 4+
    NodeId int32 4+
    Host string 4+
    Port int32 4+
    ErrorCode int16 4+
    ErrorMessage string 4+ null 4+ ignorable
request 11 JoinGroupRequest 0-9 flexible 6+
  GroupId string 0+
  SessionTimeoutMs int32 0+
  RebalanceTimeoutMs int32 1+ default -1 ignorable
  MemberId string 0+
  GroupInstanceId string 5+ null 5+ default null
  ProtocolType string 0+
  Protocols []JoinGroupRequestProtocol 0+
    Name string 0+
    Metadata bytes 0+
  Reason string 8+ null 8+ default null ignorable
response 11 JoinGroupResponse 0-9 flexible 6+
  ThrottleTimeMs int32 2+ ignorable
  ErrorCode int16 0+
  GenerationId int32 0+ default -1
  ProtocolType string 7+ null 7+ default null ignorable
  ProtocolName string 0+ null 7+
  Leader string 0+
  SkipAssignment bool 9+
  MemberId string 0+
  Members []JoinGroupResponseMember 0+
    MemberId string 0+
    GroupInstanceId string 5+ null 5+ default null ignorable
    Metadata bytes 0+
request 12 HeartbeatRequest 0-4 flexible 4+
  GroupId string 0+
  GenerationId int32 0+
  MemberId string 0+
  GroupInstanceId string 3+ null 3+ default null
response 12 HeartbeatResponse 0-4 flexible 4+
  ThrottleTimeMs int32 1+ ignorable
  ErrorCode int16 0+
request 13 LeaveGroupRequest 0-5 flexible 4+
  GroupId string 0+
  MemberId string 0-2
  Members []MemberIdentity 3+
    MemberId string 3+
    GroupInstanceId string 3+ null 3+ default null
    Reason string 5+ null 5+ default null ignorable
response 13 LeaveGroupResponse 0-5 flexible 4+
  ThrottleTimeMs int32 1+ ignorable
  ErrorCode int16 0+
  Members []MemberResponse 3+
    MemberId string 3+
    GroupInstanceId string 3+ null 3+
    ErrorCode int16 3+
request 14 SyncGroupRequest 0-5 flexible 4+
  GroupId string 0+
  GenerationId int32 0+
  MemberId string 0+
  GroupInstanceId string 3+ null 3+ default null
  ProtocolType string 5+ null 5+ default null ignorable
  ProtocolName string 5+ null 5+ default null ignorable
  Assignments []SyncGroupRequestAssignment 0+
    MemberId string 0+
    Assignment bytes 0+
response 14 SyncGroupResponse 0-5 flexible 4+
  ThrottleTimeMs int32 1+ ignorable
  ErrorCode int16 0+
  ProtocolType string 5+ null 5+ default null ignorable
  ProtocolName string 5+ null 5+ default null ignorable
  Assignment bytes 0+
request 15 DescribeGroupsRequest 0-5 flexible 5+
  Groups []string 0+
  IncludeAuthorizedOperations bool 3+
response 15 DescribeGroupsResponse 0-5 flexible 5+
  ThrottleTimeMs int32 1+ ignorable
  Groups []DescribedGroup 0+
    ErrorCode int16 0+
    GroupId string 0+
    GroupState string 0+
    ProtocolType string 0+
    ProtocolData string 0+
    Members []DescribedGroupMember 0+
      MemberId string 0+
      GroupInstanceId string 4+ null 4+ default null ignorable
      ClientId string 0+
      ClientHost string 0+
      MemberMetadata bytes 0+
      MemberAssignment bytes 0+
    AuthorizedOperations int32 3+ default -2147483648
request 16 ListGroupsRequest 0-5 flexible 3+
  StatesFilter []string 4+
  TypesFilter []string 5+
response 16 ListGroupsResponse 0-5 flexible 3+
  ThrottleTimeMs int32 1+ ignorable
  ErrorCode int16 0+
  Groups []ListedGroup 0+
    GroupId string 0+
    ProtocolType string 0+
    GroupState string 4+ ignorable
    GroupType string 5+ ignorable
request 17 SaslHandshakeRequest 0-1 flexible none
  Mechanism string 0+
response 17 SaslHandshakeResponse 0-1 flexible none
  ErrorCode int16 0+
  Mechanisms []string 0+
request 18 ApiVersionsRequest 0-4 flexible 3+
  ClientSoftwareName string 3+ ignorable
  ClientSoftwareVersion string 3+ ignorable
response 18 ApiVersionsResponse 0-4 flexible 3+
  ErrorCode int16 0+
  ApiKeys []ApiVersion 0+
    ApiKey int16 0+
    MinVersion int16 0+
    MaxVersion int16 0+
  ThrottleTimeMs int32 1+ ignorable
  SupportedFeatures []SupportedFeatureKey 3+ tag 0 3+ ignorable
    Name string 3+
    MinVersion int16 3+
    MaxVersion int16 3+
  FinalizedFeaturesEpoch int64 3+ tag 1 3+ default -1 ignorable
  FinalizedFeatures []FinalizedFeatureKey 3+ tag 2 3+ ignorable
    Name string 3+
    MaxVersionLevel int16 3+
    MinVersionLevel int16 3+
  ZkMigrationReady bool 3+ tag 3 3+ ignorable
request 19 CreateTopicsRequest 0-7 flexible 5+
  Topics []CreatableTopic 0+
    Name string 0+
    NumPartitions int32 0+
    ReplicationFactor int16 0+
    Assignments []CreatableReplicaAssignment 0+
      PartitionIndex int32 0+
      BrokerIds []int32 0+
    Configs []CreatableTopicConfig 0+
      Name string 0+
      Value string 0+ null 0+
  timeoutMs int32 0+ default 60000
  validateOnly bool 1+
response 19 CreateTopicsResponse 0-7 flexible 5+
  ThrottleTimeMs int32 2+ ignorable
  Topics []CreatableTopicResult 0+
    Name string 0+
    TopicId uuid 7+ ignorable
    ErrorCode int16 0+
    ErrorMessage string 1+ null 0+ ignorable
    TopicConfigErrorCode int16 5+ tag 0 5+ ignorable
    NumPartitions int32 5+ default -1 ignorable
    ReplicationFactor int16 5+ default -1 ignorable
    Configs []CreatableTopicConfigs 5+ null 5+ ignorable
      Name string 5+
      Value string 5+ null 5+
      ReadOnly bool 5+
      ConfigSource int8 5+ default -1 ignorable
      IsSensitive bool 5+
request 20 DeleteTopicsRequest 0-6 flexible 4+
  Topics []DeleteTopicState 6+
    Name string 6+ null 6+ default null
    TopicId uuid 6+
  TopicNames []string 0-5 ignorable
  TimeoutMs int32 0+
response 20 DeleteTopicsResponse 0-6 flexible 4+
  ThrottleTimeMs int32 1+ ignorable
  Responses []DeletableTopicResult 0+
    Name string 0+ null 6+
    TopicId uuid 6+ ignorable
    ErrorCode int16 0+
    ErrorMessage string 5+ null 5+ default null ignorable
request 21 DeleteRecordsRequest 0-2 flexible 2+
  Topics []DeleteRecordsTopic 0+
    Name string 0+
    Partitions []DeleteRecordsPartition 0+
      PartitionIndex int32 0+
      Offset int64 0+
  TimeoutMs int32 0+
response 21 DeleteRecordsResponse 0-2 flexible 2+
  ThrottleTimeMs int32 0+
  Topics []DeleteRecordsTopicResult 0+
    Name string 0+
    Partitions []DeleteRecordsPartitionResult 0+
      PartitionIndex int32 0+
      LowWatermark int64 0+
      ErrorCode int16 0+
request 22 InitProducerIdRequest 0-5 flexible 2+
  TransactionalId string 0+ null 0+
  TransactionTimeoutMs int32 0+
  ProducerId int64 3+ default -1
  ProducerEpoch int16 3+ default -1
response 22 InitProducerIdResponse 0-5 flexible 2+
  ThrottleTimeMs int32 0+ ignorable
  ErrorCode int16 0+
  ProducerId int64 0+ default -1
  ProducerEpoch int16 0+
request 23 OffsetForLeaderEpochRequest 0-4 flexible 4+
  ReplicaId int32 3+ default -2 ignorable
  Topics []OffsetForLeaderTopic 0+
    Topic string 0+
    Partitions []OffsetForLeaderPartition 0+
      Partition int32 0+
      CurrentLeaderEpoch int32 2+ default -1 ignorable
      LeaderEpoch int32 0+
response 23 OffsetForLeaderEpochResponse 0-4 flexible 4+
  ThrottleTimeMs int32 2+ ignorable
  Topics []OffsetForLeaderTopicResult 0+
    Topic string 0+
    Partitions []EpochEndOffset 0+
      ErrorCode int16 0+
      Partition int32 0+
      LeaderEpoch int32 1+ default -1 ignorable
      EndOffset int64 0+ default -1
request 24 AddPartitionsToTxnRequest 0-5 flexible 3+
  Transactions []AddPartitionsToTxnTransaction 4+
    TransactionalId string 4+
    ProducerId int64 4+
    ProducerEpoch int16 4+
    VerifyOnly bool 4+
    Topics []AddPartitionsToTxnTopic 4+
  V3AndBelowTransactionalId string 0-3
  V3AndBelowProducerId int64 0-3
  V3AndBelowProducerEpoch int16 0-3
  V3AndBelowTopics []AddPartitionsToTxnTopic 0-3
  struct AddPartitionsToTxnTopic
    Name string 0+
    Partitions []int32 0+
response 24 AddPartitionsToTxnResponse 0-5 flexible 3+
  ThrottleTimeMs int32 0+
  ErrorCode int16 4+ ignorable
  ResultsByTransaction []AddPartitionsToTxnResult 4+
    TransactionalId string 4+
    TopicResults []AddPartitionsToTxnTopicResult 4+
  ResultsByTopicV3AndBelow []AddPartitionsToTxnTopicResult 0-3
  struct AddPartitionsToTxnTopicResult
    Name string 0+
    ResultsByPartition []AddPartitionsToTxnPartitionResult 0+
  struct AddPartitionsToTxnPartitionResult
    PartitionIndex int32 0+
    PartitionErrorCode int16 0+
request 25 AddOffsetsToTxnRequest 0-4 flexible 3+
  TransactionalId string 0+
  ProducerId int64 0+
  ProducerEpoch int16 0+
  GroupId string 0+
response 25 AddOffsetsToTxnResponse 0-4 flexible 3+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
request 26 EndTxnRequest 0-4 flexible 3+
  TransactionalId string 0+
  ProducerId int64 0+
  ProducerEpoch int16 0+
  Committed bool 0+
response 26 EndTxnResponse 0-4 flexible 3+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
request 27 WriteTxnMarkersRequest 0-1 flexible 1+
  Markers []WritableTxnMarker 0+
    ProducerId int64 0+
    ProducerEpoch int16 0+
    TransactionResult bool 0+
    Topics []WritableTxnMarkerTopic 0+
      Name string 0+
      PartitionIndexes []int32 0+
    CoordinatorEpoch int32 0+
response 27 WriteTxnMarkersResponse 0-1 flexible 1+
  Markers []WritableTxnMarkerResult 0+
    ProducerId int64 0+
    Topics []WritableTxnMarkerTopicResult 0+
      Name string 0+
      Partitions []WritableTxnMarkerPartitionResult 0+
        PartitionIndex int32 0+
        ErrorCode int16 0+
request 28 TxnOffsetCommitRequest 0-4 flexible 3+
  TransactionalId string 0+
  GroupId string 0+
  ProducerId int64 0+
  ProducerEpoch int16 0+
  GenerationId int32 3+ default -1
  MemberId string 3+
  GroupInstanceId string 3+ null 3+ default null
  Topics []TxnOffsetCommitRequestTopic 0+
    Name string 0+
    Partitions []TxnOffsetCommitRequestPartition 0+
      PartitionIndex int32 0+
      CommittedOffset int64 0+
      CommittedLeaderEpoch int32 2+ default -1 ignorable
      CommittedMetadata string 0+ null 0+
response 28 TxnOffsetCommitResponse 0-4 flexible 3+
  ThrottleTimeMs int32 0+
  Topics []TxnOffsetCommitResponseTopic 0+
    Name string 0+
    Partitions []TxnOffsetCommitResponsePartition 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
request 29 DescribeAclsRequest 0-3 flexible 2+
  ResourceTypeFilter int8 0+
  ResourceNameFilter string 0+ null 0+
  PatternTypeFilter int8 1+ default 3
  PrincipalFilter string 0+ null 0+
  HostFilter string 0+ null 0+
  Operation int8 0+
  PermissionType int8 0+
response 29 DescribeAclsResponse 0-3 flexible 2+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
  Resources []DescribeAclsResource 0+
    ResourceType int8 0+
    ResourceName string 0+
    PatternType int8 1+ default 3
    Acls []AclDescription 0+
      Principal string 0+
      Host string 0+
      Operation int8 0+
      PermissionType int8 0+
request 30 CreateAclsRequest 0-3 flexible 2+
  Creations []AclCreation 0+
    ResourceType int8 0+
    ResourceName string 0+
    ResourcePatternType int8 1+ default 3
    Principal string 0+
    Host string 0+
    Operation int8 0+
    PermissionType int8 0+
response 30 CreateAclsResponse 0-3 flexible 2+
  ThrottleTimeMs int32 0+
  Results []AclCreationResult 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
request 31 DeleteAclsRequest 0-3 flexible 2+
  Filters []DeleteAclsFilter 0+
    ResourceTypeFilter int8 0+
    ResourceNameFilter string 0+ null 0+
    PatternTypeFilter int8 1+ default 3
    PrincipalFilter string 0+ null 0+
    HostFilter string 0+ null 0+
    Operation int8 0+
    PermissionType int8 0+
response 31 DeleteAclsResponse 0-3 flexible 2+
  ThrottleTimeMs int32 0+
  FilterResults []DeleteAclsFilterResult 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
    MatchingAcls []DeleteAclsMatchingAcl 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+
      ResourceType int8 0+
      ResourceName string 0+
      PatternType int8 1+ default 3
      Principal string 0+
      Host string 0+
      Operation int8 0+
      PermissionType int8 0+
request 32 DescribeConfigsRequest 0-4 flexible 4+
  Resources []DescribeConfigsResource 0+
    ResourceType int8 0+
    ResourceName string 0+
    ConfigurationKeys []string 0+ null 0+
  IncludeSynonyms bool 1+
  IncludeDocumentation bool 3+
response 32 DescribeConfigsResponse 0-4 flexible 4+
  ThrottleTimeMs int32 0+
  Results []DescribeConfigsResult 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
    ResourceType int8 0+
    ResourceName string 0+
    Configs []DescribeConfigsResourceResult 0+
      Name string 0+
      Value string 0+ null 0+
      ReadOnly bool 0+
      IsDefault bool 0
      ConfigSource int8 1+ default -1 ignorable
      IsSensitive bool 0+
      Synonyms []DescribeConfigsSynonym 1+ ignorable
        Name string 1+
        Value string 1+ null 0+
        Source int8 1+
      ConfigType int8 3+ ignorable
      Documentation string 3+ null 0+ ignorable
request 33 AlterConfigsRequest 0-2 flexible 2+
  Resources []AlterConfigsResource 0+
    ResourceType int8 0+
    ResourceName string 0+
    Configs []AlterableConfig 0+
      Name string 0+
      Value string 0+ null 0+
  ValidateOnly bool 0+
response 33 AlterConfigsResponse 0-2 flexible 2+
  ThrottleTimeMs int32 0+
  Responses []AlterConfigsResourceResponse 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
    ResourceType int8 0+
    ResourceName string 0+
request 34 AlterReplicaLogDirsRequest 0-2 flexible 2+
  Dirs []AlterReplicaLogDir 0+
    Path string 0+
    Topics []AlterReplicaLogDirTopic 0+
      Name string 0+
      Partitions []int32 0+
response 34 AlterReplicaLogDirsResponse 0-2 flexible 2+
  ThrottleTimeMs int32 0+
  Results []AlterReplicaLogDirTopicResult 0+
    TopicName string 0+
    Partitions []AlterReplicaLogDirPartitionResult 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
request 35 DescribeLogDirsRequest 0-4 flexible 2+
  Topics []DescribableLogDirTopic 0+ null 0+
    Topic string 0+
    Partitions []int32 0+
response 35 DescribeLogDirsResponse 0-4 flexible 2+
  ThrottleTimeMs int32 0+
  ErrorCode int16 3+ ignorable
  Results []DescribeLogDirsResult 0+
    ErrorCode int16 0+
    LogDir string 0+
    Topics []DescribeLogDirsTopic 0+
      Name string 0+
      Partitions []DescribeLogDirsPartition 0+
        PartitionIndex int32 0+
        PartitionSize int64 0+
        OffsetLag int64 0+
        IsFutureKey bool 0+
    TotalBytes int64 4+ default -1 ignorable
    UsableBytes int64 4+ default -1 ignorable
request 36 SaslAuthenticateRequest 0-2 flexible 2+
  AuthBytes bytes 0+
response 36 SaslAuthenticateResponse 0-2 flexible 2+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
  AuthBytes bytes 0+
  SessionLifetimeMs int64 1+ ignorable
request 37 CreatePartitionsRequest 0-3 flexible 2+
  Topics []CreatePartitionsTopic 0+
    Name string 0+
    Count int32 0+
    Assignments []CreatePartitionsAssignment 0+ null 0+
      BrokerIds []int32 0+
  TimeoutMs int32 0+
  ValidateOnly bool 0+
response 37 CreatePartitionsResponse 0-3 flexible 2+
  ThrottleTimeMs int32 0+
  Results []CreatePartitionsTopicResult 0+
    Name string 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+ default null
request 38 CreateDelegationTokenRequest 0-3 flexible 2+
  OwnerPrincipalType string 3+ null 3+
  OwnerPrincipalName string 3+ null 3+
  Renewers []CreatableRenewers 0+
    PrincipalType string 0+
    PrincipalName string 0+
  MaxLifetimeMs int64 0+
response 38 CreateDelegationTokenResponse 0-3 flexible 2+
  ErrorCode int16 0+
  PrincipalType string 0+
  PrincipalName string 0+
  TokenRequesterPrincipalType string 3+
  TokenRequesterPrincipalName string 3+
  IssueTimestampMs int64 0+
  ExpiryTimestampMs int64 0+
  MaxTimestampMs int64 0+
  TokenId string 0+
  Hmac bytes 0+
  ThrottleTimeMs int32 0+
request 39 RenewDelegationTokenRequest 0-2 flexible 2+
  Hmac bytes 0+
  RenewPeriodMs int64 0+
response 39 RenewDelegationTokenResponse 0-2 flexible 2+
  ErrorCode int16 0+
  ExpiryTimestampMs int64 0+
  ThrottleTimeMs int32 0+
request 40 ExpireDelegationTokenRequest 0-2 flexible 2+
  Hmac bytes 0+
  ExpiryTimePeriodMs int64 0+
response 40 ExpireDelegationTokenResponse 0-2 flexible 2+
  ErrorCode int16 0+
  ExpiryTimestampMs int64 0+
  ThrottleTimeMs int32 0+
request 41 DescribeDelegationTokenRequest 0-3 flexible 2+
  Owners []DescribeDelegationTokenOwner 0+ null 0+
    PrincipalType string 0+
    PrincipalName string 0+
response 41 DescribeDelegationTokenResponse 0-3 flexible 2+
  ErrorCode int16 0+
  Tokens []DescribedDelegationToken 0+
    PrincipalType string 0+
    PrincipalName string 0+
    TokenRequesterPrincipalType string 3+
    TokenRequesterPrincipalName string 3+
    IssueTimestamp int64 0+
    ExpiryTimestamp int64 0+
    MaxTimestamp int64 0+
    TokenId string 0+
    Hmac bytes 0+
    Renewers []DescribedDelegationTokenRenewer 0+
      PrincipalType string 0+
      PrincipalName string 0+
  ThrottleTimeMs int32 0+
request 42 DeleteGroupsRequest 0-2 flexible 2+
  GroupsNames []string 0+
response 42 DeleteGroupsResponse 0-2 flexible 2+
  ThrottleTimeMs int32 0+
  Results []DeletableGroupResult 0+
    GroupId string 0+
    ErrorCode int16 0+
request 43 ElectLeadersRequest 0-2 flexible 2+
  ElectionType int8 1+
  TopicPartitions []TopicPartitions 0+ null 0+
    Topic string 0+
    Partitions []int32 0+
  TimeoutMs int32 0+ default 60000
response 43 ElectLeadersResponse 0-2 flexible 2+
  ThrottleTimeMs int32 0+
  ErrorCode int16 1+
  ReplicaElectionResults []ReplicaElectionResult 0+
    Topic string 0+
    PartitionResult []PartitionResult 0+
      PartitionId int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+
request 44 IncrementalAlterConfigsRequest 0-1 flexible 1+
  Resources []AlterConfigsResource 0+
    ResourceType int8 0+
    ResourceName string 0+
    Configs []AlterableConfig 0+
      Name string 0+
      ConfigOperation int8 0+
      Value string 0+ null 0+
  ValidateOnly bool 0+
response 44 IncrementalAlterConfigsResponse 0-1 flexible 1+
  ThrottleTimeMs int32 0+
  Responses []AlterConfigsResourceResponse 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
    ResourceType int8 0+
    ResourceName string 0+
request 45 AlterPartitionReassignmentsRequest 0 flexible 0+
  TimeoutMs int32 0+ default 60000
  Topics []ReassignableTopic 0+
    Name string 0+
    Partitions []ReassignablePartition 0+
      PartitionIndex int32 0+
      Replicas []int32 0+ null 0+ default null
response 45 AlterPartitionReassignmentsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
  Responses []ReassignableTopicResponse 0+
    Name string 0+
    Partitions []ReassignablePartitionResponse 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+
request 46 ListPartitionReassignmentsRequest 0 flexible 0+
  TimeoutMs int32 0+ default 60000
  Topics []ListPartitionReassignmentsTopics 0+ null 0+ default null
    Name string 0+
    PartitionIndexes []int32 0+
response 46 ListPartitionReassignmentsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
  Topics []OngoingTopicReassignment 0+
    Name string 0+
    Partitions []OngoingPartitionReassignment 0+
      PartitionIndex int32 0+
      Replicas []int32 0+
      AddingReplicas []int32 0+
      RemovingReplicas []int32 0+
request 47 OffsetDeleteRequest 0 flexible none
  GroupId string 0+
  Topics []OffsetDeleteRequestTopic 0+
    Name string 0+
    Partitions []OffsetDeleteRequestPartition 0+
      PartitionIndex int32 0+
response 47 OffsetDeleteResponse 0 flexible none
  ErrorCode int16 0+
  ThrottleTimeMs int32 0+ ignorable
  Topics []OffsetDeleteResponseTopic 0+
    Name string 0+
    Partitions []OffsetDeleteResponsePartition 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
request 48 DescribeClientQuotasRequest 0-1 flexible 1+
  Components []ComponentData 0+
    EntityType string 0+
    MatchType int8 0+
    Match string 0+ null 0+
  Strict bool 0+
response 48 DescribeClientQuotasResponse 0-1 flexible 1+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
  Entries []EntryData 0+ null 0+
    Entity []EntityData 0+
      EntityType string 0+
      EntityName string 0+ null 0+
    Values []ValueData 0+
      Key string 0+
      Value float64 0+
request 49 AlterClientQuotasRequest 0-1 flexible 1+
  Entries []EntryData 0+
    Entity []EntityData 0+
      EntityType string 0+
      EntityName string 0+ null 0+
    Ops []OpData 0+
      Key string 0+
      Value float64 0+
      Remove bool 0+
  ValidateOnly bool 0+
response 49 AlterClientQuotasResponse 0-1 flexible 1+
  ThrottleTimeMs int32 0+
  Entries []EntryData 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
    Entity []EntityData 0+
      EntityType string 0+
      EntityName string 0+ null 0+
request 50 DescribeUserScramCredentialsRequest 0 flexible 0+
  Users []UserName 0+ null 0+
    Name string 0+
response 50 DescribeUserScramCredentialsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
  Results []DescribeUserScramCredentialsResult 0+
    User string 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
    CredentialInfos []CredentialInfo 0+
      Mechanism int8 0+
      Iterations int32 0+
request 51 AlterUserScramCredentialsRequest 0 flexible 0+
  Deletions []ScramCredentialDeletion 0+
    Name string 0+
    Mechanism int8 0+
  Upsertions []ScramCredentialUpsertion 0+
    Name string 0+
    Mechanism int8 0+
    Iterations int32 0+
    Salt bytes 0+
    SaltedPassword bytes 0+
response 51 AlterUserScramCredentialsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  Results []AlterUserScramCredentialsResult 0+
    User string 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
request 52 VoteRequest 0-1 flexible 0+
  ClusterId string 0+ null 0+ default null
  VoterId int32 1+ default -1 ignorable
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      CandidateEpoch int32 0+
      CandidateId int32 0+
      CandidateDirectoryId uuid 1+ ignorable
      VoterDirectoryId uuid 1+ ignorable
      LastOffsetEpoch int32 0+
      LastOffset int64 0+
response 52 VoteResponse 0-1 flexible 0+
  ErrorCode int16 0+
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      LeaderId int32 0+
      LeaderEpoch int32 0+
      VoteGranted bool 0+
  NodeEndpoints []NodeEndpoint 1+ tag 0 1+
    NodeId int32 1+
    Host string 1+
    Port uint16 1+
request 53 BeginQuorumEpochRequest 0-1 flexible 1+
  ClusterId string 0+ null 0+ default null
  VoterId int32 1+ default -1 ignorable
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      VoterDirectoryId uuid 1+ ignorable
      LeaderId int32 0+
      LeaderEpoch int32 0+
  LeaderEndpoints []LeaderEndpoint 1+ ignorable
    Name string 1+
    Host string 1+
    Port uint16 1+
response 53 BeginQuorumEpochResponse 0-1 flexible 1+
  ErrorCode int16 0+
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      LeaderId int32 0+
      LeaderEpoch int32 0+
  NodeEndpoints []NodeEndpoint 1+ tag 0 1+
    NodeId int32 1+
    Host string 1+
    Port uint16 1+
request 54 EndQuorumEpochRequest 0-1 flexible 1+
  ClusterId string 0+ null 0+ default null
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      LeaderId int32 0+
      LeaderEpoch int32 0+
      PreferredSuccessors []int32 0 ignorable
      PreferredCandidates []ReplicaInfo 1+ ignorable
        CandidateId int32 1+
        CandidateDirectoryId uuid 1+
  LeaderEndpoints []LeaderEndpoint 1+ ignorable
    Name string 1+
    Host string 1+
    Port uint16 1+
response 54 EndQuorumEpochResponse 0-1 flexible 1+
  ErrorCode int16 0+
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      LeaderId int32 0+
      LeaderEpoch int32 0+
  NodeEndpoints []NodeEndpoint 1+ tag 0 1+
    NodeId int32 1+
    Host string 1+
    Port uint16 1+
request 55 DescribeQuorumRequest 0-2 flexible 0+
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
response 55 DescribeQuorumResponse 0-2 flexible 0+
  ErrorCode int16 0+
  ErrorMessage string 2+ null 2+ ignorable
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      ErrorMessage string 2+ null 2+ ignorable
      LeaderId int32 0+
      LeaderEpoch int32 0+
      HighWatermark int64 0+
      CurrentVoters []ReplicaState 0+
      Observers []ReplicaState 0+
  Nodes []Node 2+
    NodeId int32 2+
    Listeners []Listener 2+
      Name string 2+
      Host string 2+
      Port uint16 2+
  struct ReplicaState
    ReplicaId int32 0+
    ReplicaDirectoryId uuid 2+
    LogEndOffset int64 0+
    LastFetchTimestamp int64 1+ default -1 ignorable
    LastCaughtUpTimestamp int64 1+ default -1 ignorable
request 56 AlterPartitionRequest 0-3 flexible 0+
  BrokerId int32 0+
  BrokerEpoch int64 0+ default -1
  Topics []TopicData 0+
    TopicName string 0-1 ignorable
    TopicId uuid 2+ ignorable
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      LeaderEpoch int32 0+
      NewIsr []int32 0-2
      NewIsrWithEpochs []BrokerState 3+
        BrokerId int32 3+
        BrokerEpoch int64 3+ default -1
      LeaderRecoveryState int8 1+
      PartitionEpoch int32 0+
response 56 AlterPartitionResponse 0-3 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  Topics []TopicData 0+
    TopicName string 0-1 ignorable
    TopicId uuid 2+ ignorable
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      LeaderId int32 0+
      LeaderEpoch int32 0+
      Isr []int32 0+
      LeaderRecoveryState int8 1+ ignorable
      PartitionEpoch int32 0+
request 57 UpdateFeaturesRequest 0-1 flexible 0+
  timeoutMs int32 0+ default 60000
  FeatureUpdates []FeatureUpdateKey 0+
    Feature string 0+
    MaxVersionLevel int16 0+
    AllowDowngrade bool 0
    UpgradeType int8 1+ default 1
  ValidateOnly bool 1+
response 57 UpdateFeaturesResponse 0-1 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
  Results []UpdatableFeatureResult 0+
    Feature string 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+
request 58 EnvelopeRequest 0 flexible 0+
  RequestData bytes 0+
  RequestPrincipal bytes 0+ null 0+
  ClientHostAddress bytes 0+
response 58 EnvelopeResponse 0 flexible 0+
  ResponseData bytes 0+ null 0+ default null
  ErrorCode int16 0+
request 59 FetchSnapshotRequest 0-1 flexible 0+
  ClusterId string 0+ null 0+ tag 0 0+ default null
  ReplicaId int32 0+ default -1
  MaxBytes int32 0+ default 0x7fffffff
  Topics []TopicSnapshot 0+
    Name string 0+
    Partitions []PartitionSnapshot 0+
      Partition int32 0+
      CurrentLeaderEpoch int32 0+
      SnapshotId SnapshotId 0+
        EndOffset int64 0+
        Epoch int32 0+
      Position int64 0+
      ReplicaDirectoryId uuid 1+ tag 0 1+ ignorable
response 59 FetchSnapshotResponse 0-1 flexible 0+
  ThrottleTimeMs int32 0+ ignorable
  ErrorCode int16 0+
  Topics []TopicSnapshot 0+
    Name string 0+
    Partitions []PartitionSnapshot 0+
      Index int32 0+
      ErrorCode int16 0+
      SnapshotId SnapshotId 0+
        EndOffset int64 0+
        Epoch int32 0+
      CurrentLeader LeaderIdAndEpoch 0+ tag 0 0+
        LeaderId int32 0+
        LeaderEpoch int32 0+
      Size int64 0+
      Position int64 0+
      UnalignedRecords records 0+
  NodeEndpoints []NodeEndpoint 1+ tag 0 1+
    NodeId int32 1+
    Host string 1+
    Port uint16 1+
request 60 DescribeClusterRequest 0-1 flexible 0+
  IncludeClusterAuthorizedOperations bool 0+
  EndpointType int8 1+ default 1
response 60 DescribeClusterResponse 0-1 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+ default null
  EndpointType int8 1+ default 1
  ClusterId string 0+
  ControllerId int32 0+ default -1
  Brokers []DescribeClusterBroker 0+
    BrokerId int32 0+
    Host string 0+
    Port int32 0+
    Rack string 0+ null 0+ default null
  ClusterAuthorizedOperations int32 0+ default -2147483648
request 61 DescribeProducersRequest 0 flexible 0+
  Topics []TopicRequest 0+
    Name string 0+
    PartitionIndexes []int32 0+
response 61 DescribeProducersResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  Topics []TopicResponse 0+
    Name string 0+
    Partitions []PartitionResponse 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+ default null
      ActiveProducers []ProducerState 0+
        ProducerId int64 0+
        ProducerEpoch int32 0+
        LastSequence int32 0+ default -1
        LastTimestamp int64 0+ default -1
        CoordinatorEpoch int32 0+
        CurrentTxnStartOffset int64 0+ default -1
request 62 BrokerRegistrationRequest 0-4 flexible 0+
  BrokerId int32 0+
  ClusterId string 0+
  IncarnationId uuid 0+
  Listeners []Listener 0+
    Name string 0+
    Host string 0+
    Port uint16 0+
    SecurityProtocol int16 0+
  Features []Feature 0+
    Name string 0+
    MinSupportedVersion int16 0+
    MaxSupportedVersion int16 0+
  Rack string 0+ null 0+
  IsMigratingZkBroker bool 1+
  LogDirs []uuid 2+ ignorable
  PreviousBrokerEpoch int64 3+ default -1 ignorable
response 62 BrokerRegistrationResponse 0-4 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  BrokerEpoch int64 0+ default -1
request 63 BrokerHeartbeatRequest 0-1 flexible 0+
  BrokerId int32 0+
  BrokerEpoch int64 0+ default -1
  CurrentMetadataOffset int64 0+
  WantFence bool 0+
  WantShutDown bool 0+
  OfflineLogDirs []uuid 1+ tag 0 1+
response 63 BrokerHeartbeatResponse 0-1 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  IsCaughtUp bool 0+
  IsFenced bool 0+ default true
  ShouldShutDown bool 0+
request 64 UnregisterBrokerRequest 0 flexible 0+
  BrokerId int32 0+
response 64 UnregisterBrokerResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
request 65 DescribeTransactionsRequest 0 flexible 0+
  TransactionalIds []string 0+
response 65 DescribeTransactionsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  TransactionStates []TransactionState 0+
    ErrorCode int16 0+
    TransactionalId string 0+
    TransactionState string 0+
    TransactionTimeoutMs int32 0+
    TransactionStartTimeMs int64 0+
    ProducerId int64 0+
    ProducerEpoch int16 0+
    Topics []TopicData 0+
      Topic string 0+
      Partitions []int32 0+
request 66 ListTransactionsRequest 0-1 flexible 0+
  StateFilters []string 0+
  ProducerIdFilters []int64 0+
  DurationFilter int64 1+ default -1
response 66 ListTransactionsResponse 0-1 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  UnknownStateFilters []string 0+
  TransactionStates []TransactionState 0+
    TransactionalId string 0+
    ProducerId int64 0+
    TransactionState string 0+
request 67 AllocateProducerIdsRequest 0 flexible 0+
  BrokerId int32 0+
  BrokerEpoch int64 0+ default -1
response 67 AllocateProducerIdsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ProducerIdStart int64 0+
  ProducerIdLen int32 0+
request 68 ConsumerGroupHeartbeatRequest 0 flexible 0+
  GroupId string 0+
  MemberId string 0+
  MemberEpoch int32 0+
  InstanceId string 0+ null 0+ default null
  RackId string 0+ null 0+ default null
  RebalanceTimeoutMs int32 0+ default -1
  SubscribedTopicNames []string 0+ null 0+ default null
  ServerAssignor string 0+ null 0+ default null
  TopicPartitions []TopicPartitions 0+ null 0+ default null
    TopicId uuid 0+
    Partitions []int32 0+
response 68 ConsumerGroupHeartbeatResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+ default null
  MemberId string 0+ null 0+ default null
  MemberEpoch int32 0+
  HeartbeatIntervalMs int32 0+
  Assignment Assignment 0+ null 0+ default null
    TopicPartitions []TopicPartitions 0+
  struct TopicPartitions
    TopicId uuid 0+
    Partitions []int32 0+
request 69 ConsumerGroupDescribeRequest 0 flexible 0+
  GroupIds []string 0+
  IncludeAuthorizedOperations bool 0+
response 69 ConsumerGroupDescribeResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  Groups []DescribedGroup 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+ default null
    GroupId string 0+
    GroupState string 0+
    GroupEpoch int32 0+
    AssignmentEpoch int32 0+
    AssignorName string 0+
    Members []Member 0+
      MemberId string 0+
      InstanceId string 0+ null 0+ default null
      RackId string 0+ null 0+ default null
      MemberEpoch int32 0+
      ClientId string 0+
      ClientHost string 0+
      SubscribedTopicNames []string 0+
      SubscribedTopicRegex string 0+ null 0+ default null
      Assignment Assignment 0+
      TargetAssignment Assignment 0+
    AuthorizedOperations int32 0+ default -2147483648
  struct TopicPartitions
    TopicId uuid 0+
    TopicName string 0+
    Partitions []int32 0+
  struct Assignment
    TopicPartitions []TopicPartitions 0+
request 70 ControllerRegistrationRequest 0 flexible 0+
  ControllerId int32 0+
  IncarnationId uuid 0+
  ZkMigrationReady bool 0+
  Listeners []Listener 0+
    Name string 0+
    Host string 0+
    Port uint16 0+
    SecurityProtocol int16 0+
  Features []Feature 0+
    Name string 0+
    MinSupportedVersion int16 0+
    MaxSupportedVersion int16 0+
response 70 ControllerRegistrationResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+
request 71 GetTelemetrySubscriptionsRequest 0 flexible 0+
  ClientInstanceId uuid 0+
response 71 GetTelemetrySubscriptionsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ClientInstanceId uuid 0+
  SubscriptionId int32 0+
  AcceptedCompressionTypes []int8 0+
  PushIntervalMs int32 0+
  TelemetryMaxBytes int32 0+
  DeltaTemporality bool 0+
  RequestedMetrics []string 0+
request 72 PushTelemetryRequest 0 flexible 0+
  ClientInstanceId uuid 0+
  SubscriptionId int32 0+
  Terminating bool 0+
  CompressionType int8 0+
  Metrics bytes 0+
response 72 PushTelemetryResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
request 73 AssignReplicasToDirsRequest 0 flexible 0+
  BrokerId int32 0+
  BrokerEpoch int64 0+ default -1
  Directories []DirectoryData 0+
    Id uuid 0+
    Topics []TopicData 0+
      TopicId uuid 0+
      Partitions []PartitionData 0+
        PartitionIndex int32 0+
response 73 AssignReplicasToDirsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  Directories []DirectoryData 0+
    Id uuid 0+
    Topics []TopicData 0+
      TopicId uuid 0+
      Partitions []PartitionData 0+
        PartitionIndex int32 0+
        ErrorCode int16 0+
request 74 ListClientMetricsResourcesRequest 0 flexible 0+
response 74 ListClientMetricsResourcesResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ClientMetricsResources []ClientMetricsResource 0+
    Name string 0+
request 75 DescribeTopicPartitionsRequest 0 flexible 0+
  Topics []TopicRequest 0+
    Name string 0+
  ResponsePartitionLimit int32 0+ default 2000
  Cursor Cursor 0+ null 0+ default null
    TopicName string 0+
    PartitionIndex int32 0+
response 75 DescribeTopicPartitionsResponse 0 flexible 0+
  ThrottleTimeMs int32 0+ ignorable
  Topics []DescribeTopicPartitionsResponseTopic 0+
    ErrorCode int16 0+
    Name string 0+ null 0+
    TopicId uuid 0+ ignorable
    IsInternal bool 0+ ignorable
    Partitions []DescribeTopicPartitionsResponsePartition 0+
      ErrorCode int16 0+
      PartitionIndex int32 0+
      LeaderId int32 0+
      LeaderEpoch int32 0+ default -1 ignorable
      ReplicaNodes []int32 0+
      IsrNodes []int32 0+
      EligibleLeaderReplicas []int32 0+ null 0+ default null
      LastKnownElr []int32 0+ null 0+ default null
      OfflineReplicas []int32 0+ ignorable
    TopicAuthorizedOperations int32 0+ default -2147483648
  NextCursor Cursor 0+ null 0+ default null
    TopicName string 0+
    PartitionIndex int32 0+
request 76 ShareGroupHeartbeatRequest 0 flexible 0+
  GroupId string 0+
  MemberId string 0+
  MemberEpoch int32 0+
  RackId string 0+ null 0+ default null
  SubscribedTopicNames []string 0+ null 0+ default null
response 76 ShareGroupHeartbeatResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+ default null
  MemberId string 0+ null 0+ default null
  MemberEpoch int32 0+
  HeartbeatIntervalMs int32 0+
  Assignment Assignment 0+ null 0+ default null
    TopicPartitions []TopicPartitions 0+
  struct TopicPartitions
    TopicId uuid 0+
    Partitions []int32 0+
request 77 ShareGroupDescribeRequest 0 flexible 0+
  GroupIds []string 0+
  IncludeAuthorizedOperations bool 0+
response 77 ShareGroupDescribeResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  Groups []DescribedGroup 0+
    ErrorCode int16 0+
    ErrorMessage string 0+ null 0+ default null
    GroupId string 0+
    GroupState string 0+
    GroupEpoch int32 0+
    AssignmentEpoch int32 0+
    AssignorName string 0+
    Members []Member 0+
      MemberId string 0+
      RackId string 0+ null 0+ default null
      MemberEpoch int32 0+
      ClientId string 0+
      ClientHost string 0+
      SubscribedTopicNames []string 0+
      Assignment Assignment 0+
    AuthorizedOperations int32 0+ default -2147483648
  struct TopicPartitions
    TopicId uuid 0+
    TopicName string 0+
    Partitions []int32 0+
  struct Assignment
    TopicPartitions []TopicPartitions 0+
request 78 ShareFetchRequest 0 flexible 0+
  GroupId string 0+ null 0+ default null
  MemberId string 0+ null 0+
  ShareSessionEpoch int32 0+
  MaxWaitMs int32 0+
  MinBytes int32 0+
  MaxBytes int32 0+ default 0x7fffffff ignorable
  Topics []FetchTopic 0+
    TopicId uuid 0+ ignorable
    Partitions []FetchPartition 0+
      PartitionIndex int32 0+
      PartitionMaxBytes int32 0+
      AcknowledgementBatches []AcknowledgementBatch 0+
        FirstOffset int64 0+
        LastOffset int64 0+
        AcknowledgeTypes []int8 0+
  ForgottenTopicsData []ForgottenTopic 0+
    TopicId uuid 0+ ignorable
    Partitions []int32 0+
response 78 ShareFetchResponse 0 flexible 0+
  ThrottleTimeMs int32 0+ ignorable
  ErrorCode int16 0+ ignorable
  ErrorMessage string 0+ null 0+ default null
  Responses []ShareFetchableTopicResponse 0+
    TopicId uuid 0+ ignorable
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+ default null
      AcknowledgeErrorCode int16 0+
      AcknowledgeErrorMessage string 0+ null 0+ default null
      CurrentLeader LeaderIdAndEpoch 0+
        LeaderId int32 0+
        LeaderEpoch int32 0+
      Records records 0+ null 0+
      AcquiredRecords []AcquiredRecords 0+
        FirstOffset int64 0+
        LastOffset int64 0+
        DeliveryCount int16 0+
  NodeEndpoints []NodeEndpoint 0+
    NodeId int32 0+
    Host string 0+
    Port int32 0+
    Rack string 0+ null 0+ default null
request 79 ShareAcknowledgeRequest 0 flexible 0+
  GroupId string 0+ null 0+ default null
  MemberId string 0+ null 0+
  ShareSessionEpoch int32 0+
  Topics []AcknowledgeTopic 0+
    TopicId uuid 0+
    Partitions []AcknowledgePartition 0+
      PartitionIndex int32 0+
      AcknowledgementBatches []AcknowledgementBatch 0+
        FirstOffset int64 0+
        LastOffset int64 0+
        AcknowledgeTypes []int8 0+
response 79 ShareAcknowledgeResponse 0 flexible 0+
  ThrottleTimeMs int32 0+ ignorable
  ErrorCode int16 0+ ignorable
  ErrorMessage string 0+ null 0+ default null
  Responses []ShareAcknowledgeTopicResponse 0+
    TopicId uuid 0+ ignorable
    Partitions []PartitionData 0+
      PartitionIndex int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+ default null
      CurrentLeader LeaderIdAndEpoch 0+
        LeaderId int32 0+
        LeaderEpoch int32 0+
  NodeEndpoints []NodeEndpoint 0+
    NodeId int32 0+
    Host string 0+
    Port int32 0+
    Rack string 0+ null 0+ default null
request 80 AddRaftVoterRequest 0 flexible 0+
  ClusterId string 0+ null 0+
  TimeoutMs int32 0+
  VoterId int32 0+
  VoterDirectoryId uuid 0+
  Listeners []Listener 0+
    Name string 0+
    Host string 0+
    Port uint16 0+
response 80 AddRaftVoterResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+ ignorable
request 81 RemoveRaftVoterRequest 0 flexible 0+
  ClusterId string 0+ null 0+
  VoterId int32 0+
  VoterDirectoryId uuid 0+
response 81 RemoveRaftVoterResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  ErrorMessage string 0+ null 0+ ignorable
request 82 UpdateRaftVoterRequest 0 flexible 0+
  ClusterId string 0+ null 0+
  CurrentLeaderEpoch int32 0+
  VoterId int32 0+
  VoterDirectoryId uuid 0+
  Listeners []Listener 0+
    Name string 0+
    Host string 0+
    Port uint16 0+
  KRaftVersionFeature KRaftVersionFeature 0+
    MinSupportedVersion int16 0+
    MaxSupportedVersion int16 0+
response 82 UpdateRaftVoterResponse 0 flexible 0+
  ThrottleTimeMs int32 0+
  ErrorCode int16 0+
  CurrentLeader CurrentLeader 0+ tag 0 0+
    LeaderId int32 0+ default -1
    LeaderEpoch int32 0+ default -1
    Host string 0+
    Port int32 0+
request 83 InitializeShareGroupStateRequest 0 flexible 0+
  GroupId string 0+
  Topics []InitializeStateData 0+
    TopicId uuid 0+
    Partitions []PartitionData 0+
      Partition int32 0+
      StateEpoch int32 0+
      StartOffset int64 0+
response 83 InitializeShareGroupStateResponse 0 flexible 0+
  Results []InitializeStateResult 0+
    TopicId uuid 0+
    Partitions []PartitionResult 0+
      Partition int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+ default null
request 84 ReadShareGroupStateRequest 0 flexible 0+
  GroupId string 0+
  Topics []ReadStateData 0+
    TopicId uuid 0+
    Partitions []PartitionData 0+
      Partition int32 0+
      LeaderEpoch int32 0+
response 84 ReadShareGroupStateResponse 0 flexible 0+
  Results []ReadStateResult 0+
    TopicId uuid 0+
    Partitions []PartitionResult 0+
      Partition int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+ default null
      StateEpoch int32 0+
      StartOffset int64 0+
      StateBatches []StateBatch 0+
        FirstOffset int64 0+
        LastOffset int64 0+
        DeliveryState int8 0+
        DeliveryCount int16 0+
request 85 WriteShareGroupStateRequest 0 flexible 0+
  GroupId string 0+
  Topics []WriteStateData 0+
    TopicId uuid 0+
    Partitions []PartitionData 0+
      Partition int32 0+
      StateEpoch int32 0+
      LeaderEpoch int32 0+
      StartOffset int64 0+
      StateBatches []StateBatch 0+
        FirstOffset int64 0+
        LastOffset int64 0+
        DeliveryState int8 0+
        DeliveryCount int16 0+
response 85 WriteShareGroupStateResponse 0 flexible 0+
  Results []WriteStateResult 0+
    TopicId uuid 0+
    Partitions []PartitionResult 0+
      Partition int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+ default null
request 86 DeleteShareGroupStateRequest 0 flexible 0+
  GroupId string 0+
  Topics []DeleteStateData 0+
    TopicId uuid 0+
    Partitions []PartitionData 0+
      Partition int32 0+
response 86 DeleteShareGroupStateResponse 0 flexible 0+
  Results []DeleteStateResult 0+
    TopicId uuid 0+
    Partitions []PartitionResult 0+
      Partition int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+ default null
request 87 ReadShareGroupStateSummaryRequest 0 flexible 0+
  GroupId string 0+
  Topics []ReadStateSummaryData 0+
    TopicId uuid 0+
    Partitions []PartitionData 0+
      Partition int32 0+
      LeaderEpoch int32 0+
response 87 ReadShareGroupStateSummaryResponse 0 flexible 0+
  Results []ReadStateSummaryResult 0+
    TopicId uuid 0+
    Partitions []PartitionResult 0+
      Partition int32 0+
      ErrorCode int16 0+
      ErrorMessage string 0+ null 0+ default null
      StateEpoch int32 0+
      StartOffset int64 0+
data ConsumerProtocolAssignment 0-3 flexible none
  AssignedPartitions []TopicPartition 0+
    Topic string 0+
    Partitions []int32 0+
  UserData bytes 0+ null 0+ default null
data ConsumerProtocolSubscription 0-3 flexible none
  Topics []string 0+
  UserData bytes 0+ null 0+ default null
  OwnedPartitions []TopicPartition 1+ ignorable
    Topic string 1+
    Partitions []int32 1+
  GenerationId int32 2+ default -1 ignorable
  RackId string 3+ null 3+ default null ignorable
data DefaultPrincipalData 0 flexible 0+
  Type string 0+
  Name string 0+
  TokenAuthenticated bool 0+
data GroupMetadataKey 2 flexible none
  group string 2
data GroupMetadataValue 0-4 flexible 4+
  protocolType string 0+
  generation int32 0+
  protocol string 0+ null 0+
  leader string 0+ null 0+
  currentStateTimestamp int64 2+ default -1 ignorable
  members []MemberMetadata 0+
  struct MemberMetadata
    memberId string 0+
    groupInstanceId string 3+ null 3+ default null ignorable
    clientId string 0+
    clientHost string 0+
    rebalanceTimeout int32 1+ default -1 ignorable
    sessionTimeout int32 0+
    subscription bytes 0+
    assignment bytes 0+
data KRaftVersionRecord 0 flexible 0+
  Version int16 0+
  KRaftVersion int16 0+
data LeaderChangeMessage 0-1 flexible 0+
  Version int16 0+
  LeaderId int32 0+
  Voters []Voter 0+
  GrantingVoters []Voter 0+
  struct Voter
    VoterId int32 0+
    VoterDirectoryId uuid 1+
data OffsetCommitKey 0-1 flexible none
  group string 0-1
  topic string 0-1
  partition int32 0-1
data OffsetCommitValue 0-4 flexible 4+
  offset int64 0+
  leaderEpoch int32 3+ default -1 ignorable
  metadata string 0+
  commitTimestamp int64 0+
  expireTimestamp int64 1 default -1 ignorable
data SnapshotFooterRecord 0 flexible 0+
  Version int16 0+
data SnapshotHeaderRecord 0 flexible 0+
  Version int16 0+
  LastContainedLogTimestamp int64 0+
data TransactionLogKey 0 flexible none
  TransactionalId string 0
data TransactionLogValue 0-1 flexible 1+
  ProducerId int64 0+
  ProducerEpoch int16 0+
  TransactionTimeoutMs int32 0+
  TransactionStatus int8 0+
  TransactionPartitions []PartitionsSchema 0+ null 0+
    Topic string 0+
    PartitionIds []int32 0+
  TransactionLastUpdateTimestampMs int64 0+
  TransactionStartTimestampMs int64 0+
data VotersRecord 0 flexible 0+
  Version int16 0+
  Voters []Voter 0+
    VoterId int32 0+
    VoterDirectoryId uuid 0+
    Endpoints []Endpoint 0+
      Name string 0+
      Host string 0+
      Port uint16 0+
    KRaftVersionFeature KRaftVersionFeature 0+
      MinSupportedVersion int16 0+
      MaxSupportedVersion int16 0+
"""
