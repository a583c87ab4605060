"""UpdateFeatures, served by the controller's broker (KIP-584).

Rules of this module (KafkaController.processFeatureUpdates; recorded 2.8 to 3.9):
  - no release has a feature in ZooKeeper mode that could be finalized: each update fails, with its own error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.client_requests.handlers import Answer, Context, Handler, ServingBroker
    from simzk.kafka.releases.since import Release

UPDATE_FEATURES = 57
SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 2, 3
"""Types of updates, from version 1 of the request on (KIP-778)."""
TYPES_SINCE = (3, 3)
TOO_LOW = (
    "Can not provide maxVersionLevel: {level} less than 1 without setting the allowDowngrade flag to true in the "
    "request."
)
TOO_LOW_OF_TYPES = (
    "Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
)


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return {UPDATE_FEATURES: partial(update_features, broker.serving_broker)}


def update_features(broker: ServingBroker, context: Context, request: UpdateFeaturesRequest, answer: Answer) -> None:
    """Refuse each update."""
    may_alter = broker.allows_on_cluster("Alter", context.principal)
    if not (may_alter and broker.is_controller()):
        refused = ErrorCode.NOT_CONTROLLER if may_alter else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answer(UpdateFeaturesResponse(error_code=refused, error_message=refused.text))
        return
    results = [
        UpdateFeaturesResponse.UpdatableFeatureResult(
            feature=update.feature,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=_problem(update, context.version, broker.version.number),
        )
        for update in request.feature_updates
    ]
    answer(UpdateFeaturesResponse(error_message=None, results=results))


def _problem(update: UpdateFeaturesRequest.FeatureUpdateKey, version: int, release: Release) -> str:
    """Return why an update fails."""
    if not update.feature:
        return "Feature name can not be empty."
    if update.max_version_level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if update.upgrade_type in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE) if version else update.allow_downgrade:
        return "Can not delete non-existing finalized feature."
    text = TOO_LOW_OF_TYPES if release >= TYPES_SINCE else TOO_LOW
    return text.format(level=update.max_version_level)
